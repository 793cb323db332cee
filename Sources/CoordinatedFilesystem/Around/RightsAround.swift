// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Changes of rights that a program makes around a mount in place, by what it had open before: the kernel is told within a
/// moment that what it knows of a file's attributes is out of date, and lets nobody in by them any more (D198).
///
/// Only where others than the one user who mounted may use the mount, and only of the source's own file system. What cannot
/// be noticed is believed for a second at most: see ``CoordinatedFilesystem/attributeValidity(of:)``.
final class RightsAround: Sendable {
    /// What changes in this time is looked at once, so that what the daemon changes itself wakes it less often.
    private static let momentMicroseconds: UInt32 = 1_000

    private let watch: ChangeWatch
    private let isOver = Atomic<Bool>(false)

    /// Nil where root's rights, or names for directories, are missing.
    init?(of root: borrowing OwnedDescriptor) {
        do throws(Errno) { watch = try ChangeWatch(attributesIn: root) } catch { return nil }
    }

    /// Whether changes are noticed.
    var isAtWork: Bool { !isOver.load(ordering: .relaxed) }

    /// For as long as the process lives.
    func run(_ filesystem: CoordinatedFilesystem) {
        do throws(Errno) {
            while true {
                _ = watch.wait(until: nil)
                usleep(Self.momentMicroseconds)
                take(try watch.read(), filesystem)
            }
        } catch {
            isOver.store(true, ordering: .relaxed)
            filesystem.doubtAllAttributes()
            filesystem.engine.log("rights that are changed around the mount are seen after 1 s: \(error)")
        }
    }

    private func take(_ changes: ChangeWatch.Changes, _ filesystem: CoordinatedFilesystem) {
        if changes.hasLost { return filesystem.doubtAllAttributes() }
        let own = OwnProcess.id
        var known: [ChangeWatch.Directory: Node] = [:]
        for change in changes.changes where change.process != own {
            guard case .handle(let handle) = change.directory,
                let directory = known[change.directory] ?? filesystem.directory(of: handle, isAttended: false)
            else { continue }
            known[change.directory] = directory
            filesystem.doubtAttributes(of: NameBytes(change.name), in: directory)
        }
    }
}

extension CoordinatedFilesystem {
    /// How long the kernel may believe attributes, by which it lets programs in.
    func attributeValidity(of node: Node) -> Validity {
        let valid = validity(of: node)
        guard configuration.isInPlace, configuration.allowOther, valid.seconds > Validity.brief.seconds else {
            return valid
        }
        let isNoticed = !node.isElsewhere && rightsAround?.isAtWork ?? false
        return isNoticed ? valid : .brief
    }

    fileprivate func doubtAttributes(of name: NameBytes, in directory: Node) {
        guard !name.bytes.isEmpty else { return connection.invalidateAttributes(of: directory.id) }
        do throws(Errno) {
            let status = try directory.statusAtHand(of: name)
            if let node = nodes[FileKey(status)] { connection.invalidateAttributes(of: node.id) }
        } catch {
            // It is gone from here, and so is the way to it by this name.
            return
        }
    }

    /// The kernel has lost changes, or notices none any more.
    fileprivate func doubtAllAttributes() {
        for node in nodes.all where !node.isElsewhere { connection.invalidateAttributes(of: node.id) }
    }
}
