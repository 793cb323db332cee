// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// The inode numbers that programs see.
///
/// A mount shows several file systems as one, so their numbers must differ. And programs written in JavaScript
/// know integers up to 2⁵³ only: of larger ones several are the same to them. So the source's own numbers stay as they
/// are, and those of the first 30 devices that are met below get 5 bits of the device from bit 48 on. What does not fit
/// gets a number by a table.
package final class InodeNumberMap: Sendable {
    /// What a number stands for.
    fileprivate struct Origin: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    fileprivate struct State {
        var prefixes: [UInt64: UInt64] = [:]
        /// Which file has which number of the table, in two parts: the older one is forgotten first.
        var recent: [UInt64: Origin] = [:]
        var older: [UInt64: Origin] = [:]
        /// Those whose first number was another's. There are hardly ever any.
        var moved: [Origin: UInt64] = [:]
    }

    fileprivate static let inodeBits: UInt64 = 48
    fileprivate static let prefixCount: UInt64 = 30
    fileprivate static let prefixOfTable = prefixCount + 1
    /// How many numbers of the table are remembered at least, and how many that were moved at most.
    fileprivate static let remembered = 65_536
    fileprivate static let mostMoved = 4096
    /// How many numbers are tried: a file system that is made to have numbers that meet must not take time.
    fileprivate static let tries = 8

    private let deviceOfSource: UInt64
    private let state = Mutex(State())

    package init(deviceOfSource: UInt64) { self.deviceOfSource = deviceOfSource }

    /// A number that no other file below the source has, and that stays the same from mount to mount but for an accident.
    package func number(ofInode inode: UInt64, on device: UInt64) -> UInt64 {
        guard device != deviceOfSource else { return inode }
        return state.withLock { state in
            if inode >> Self.inodeBits == 0, let prefix = state.prefix(of: device) {
                return prefix << Self.inodeBits | inode
            }
            return state.number(of: Origin(device: device, inode: inode))
        }
    }

    /// The finalizer of SplitMix64: each bit of the result depends on all.
    fileprivate static func scatter(_ value: UInt64) -> UInt64 {
        var value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}

extension InodeNumberMap.State {
    /// By the device's number, so that it does not depend on what is looked at first, but for an accident. Nil if all are given.
    fileprivate mutating func prefix(of device: UInt64) -> UInt64? {
        if let known = prefixes[device] { return known }
        guard prefixes.count < InodeNumberMap.prefixCount else { return nil }
        var prefix = InodeNumberMap.scatter(device) % InodeNumberMap.prefixCount + 1
        while prefixes.values.contains(prefix) { prefix = prefix % InodeNumberMap.prefixCount + 1 }
        prefixes[device] = prefix
        return prefix
    }

    /// The number follows from the file, so that it is the same when the table has forgotten it. The table only keeps two
    /// files that are known from one number.
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
