// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// Where processes stand in the files that they have open through a mount.
///
/// A look goes through all that a process has open. One that took long counts for all files of that process, for ten times as long
/// as it took, 100 ms at most: whatever a process has open, and however many wait for it, that costs little of a processor.
final class OpenPositions: Sendable {
    /// A descriptor's place in its file.
    struct Position: Equatable {
        /// Whether it may read, write or both, as in `open(2)`.
        let mode: Int32
        let offset: Int64
    }

    /// By the inode number of the file.
    typealias Seen = [UInt64: [Position]]

    private struct Look {
        let seen: Seen
        let end: Instant
        /// A thread goes through the descriptors again. Until it is done, the others take what was seen before.
        var isRenewed = false
    }

    private let recent = Mutex<[ProcessID: Look]>([:])
    /// Of a processor's time. What took less counts once: to look again costs next to nothing.
    private static let long = Span.milliseconds(1)
    private static let longer: UInt64 = 10
    private static let longest = Span.milliseconds(100)
    private static let remembered = 256

    /// `look` is called if there is none that still counts. `spent` is this thread's time on a processor: what it waited for one does
    /// not count.
    func seen(
        of process: ProcessID, at now: Instant,
        spent: () -> Instant = { Instant(nanoseconds: ThreadClock.nanoseconds()) }, _ look: () -> Seen
    ) -> Seen {
        if let known = known(of: process, at: now) { return known }
        let began = spent()
        let seen = look()
        note(seen, of: process, after: spent().since(began), at: now)
        return seen
    }

    /// Nil: the calling thread has to look.
    private func known(of process: ProcessID, at now: Instant) -> Seen? {
        recent.withLock { recent in
            guard let known = recent[process] else { return nil }
            if now < known.end || known.isRenewed { return known.seen }
            recent[process]?.isRenewed = true
            return nil
        }
    }

    private func note(_ seen: Seen, of process: ProcessID, after duration: Span, at now: Instant) {
        recent.withLock { recent in
            recent[process] = nil
            guard duration >= Self.long else { return }
            if recent.count >= Self.remembered {
                recent = recent.filter { $0.value.isRenewed || now < $0.value.end }
            }
            guard recent.count < Self.remembered else { return }
            let span = min(Span(nanoseconds: duration.nanoseconds * Self.longer), Self.longest)
            recent[process] = Look(seen: seen, end: now + span)
        }
    }
}
