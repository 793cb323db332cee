// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Maps the inode numbers of the files below to the inode numbers that programs see.
///
/// A mount shows several file systems as one, so files of different file systems must have different numbers. JavaScript
/// programs cannot distinguish integers above 2⁵³, so the daemon assigns only numbers below 2⁵³. The number of a file is chosen
/// by these rules:
/// - A file on the source's device has its own inode number.
/// - A file on one of the first 30 other devices has its inode number, with 5 bits for the device from bit 48 on.
/// - Any other file has a number from a table. A file with an inode number of more than 48 bits also has a number from the
///   table.
package final class InodeNumberMap: Sendable {
    /// The file to which a number of the table belongs.
    fileprivate struct Origin: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    fileprivate struct State {
        var prefixes: [UInt64: UInt64] = [:]
        /// The files by their numbers in the table. When `recent` is full, its contents are moved to `older`, and the
        /// former contents of `older` are dropped.
        var recent: [UInt64: Origin] = [:]
        var older: [UInt64: Origin] = [:]
        /// Files that have another number than the computed one, because another file already had that number. There are hardly
        /// ever such files.
        var moved: [Origin: UInt64] = [:]
    }

    fileprivate static let inodeBits: UInt64 = 48
    fileprivate static let prefixCount: UInt64 = 30
    fileprivate static let prefixOfTable = prefixCount + 1
    /// The number of files at which `recent` counts as full.
    fileprivate static let remembered = 65_536
    fileprivate static let mostMoved = 4096
    /// The most numbers that are tried for one file. Without this limit, a file system that was made to cause collisions could
    /// take much time.
    fileprivate static let tries = 8

    private let deviceOfSource: UInt64
    private let state = Mutex(State())

    package init(deviceOfSource: UInt64) { self.deviceOfSource = deviceOfSource }

    /// The number that programs see, which no other file below the source has. A file has the same number in every mount,
    /// except after rare collisions.
    package func number(ofInode inode: UInt64, on device: UInt64) -> UInt64 {
        guard device != deviceOfSource else { return inode }
        return state.withLock { state in
            if inode >> Self.inodeBits == 0, let prefix = state.prefix(of: device) {
                return prefix << Self.inodeBits | inode
            }
            return state.number(of: Origin(device: device, inode: inode))
        }
    }

    /// Scatters a value by the finalizer of SplitMix64: each bit of the result depends on all bits of the value.
    fileprivate static func scatter(_ value: UInt64) -> UInt64 {
        var value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}

extension InodeNumberMap.State {
    /// The prefix for the numbers of a device; nil if all prefixes are assigned to other devices. The prefix is computed from
    /// the device number. After a collision, another prefix is chosen.
    fileprivate mutating func prefix(of device: UInt64) -> UInt64? {
        if let known = prefixes[device] { return known }
        guard prefixes.count < InodeNumberMap.prefixCount else { return nil }
        var prefix = InodeNumberMap.scatter(device) % InodeNumberMap.prefixCount + 1
        while prefixes.values.contains(prefix) { prefix = prefix % InodeNumberMap.prefixCount + 1 }
        prefixes[device] = prefix
        return prefix
    }

    /// The number for a file without a prefix. The number is computed from the file. So the file gets the same number even if
    /// the table has forgotten it. The table only ensures that two files in it have different numbers.
    fileprivate mutating func number(of origin: InodeNumberMap.Origin) -> UInt64 {
        if !moved.isEmpty, let number = moved[origin] { return number }
        var hash = InodeNumberMap.scatter(InodeNumberMap.scatter(origin.device) ^ origin.inode)
        for attempt in 0..<InodeNumberMap.tries {
            let number =
                InodeNumberMap.prefixOfTable << InodeNumberMap.inodeBits | hash
                >> (64 - InodeNumberMap.inodeBits)
            let owner = recent[number] ?? older[number]
            let isLast = attempt == InodeNumberMap.tries - 1
            if owner == nil || owner == origin || isLast {
                remember(number, of: origin)
                if attempt > 0, moved.count < InodeNumberMap.mostMoved { moved[origin] = number }
                return number
            }
            hash = InodeNumberMap.scatter(hash &+ 0x9E37_79B9_7F4A_7C15)
        }
        return origin.inode
    }

    private mutating func remember(_ number: UInt64, of origin: InodeNumberMap.Origin) {
        if recent[number] != nil { return }
        if recent.count >= InodeNumberMap.remembered { (older, recent) = (recent, [:]) }
        recent[number] = origin
    }
}
