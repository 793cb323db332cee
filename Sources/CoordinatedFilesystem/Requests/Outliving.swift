// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Shared mappings that outlive the descriptor they were made by (D131).
///
/// Where the kernel moves a file's data itself, it maps the file below and not ours, and RELEASE comes at close(2), though its
/// program may go on to store. So a handle by which a file may be mapped is closed when nobody can store to it any more. Until then
/// it counts as one that is open: its claim is held, and what is stored is kept from those who go over it.
extension CoordinatedFilesystem {
    /// When it is looked again, after so many nanoseconds each time; the last goes on. A file that is just being closed by the
    /// kernel counts as open to write for some microseconds more.
    private static let pauses: [UInt64] = [200_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000]

    /// Closes a handle that the kernel has let go of, or leaves it open as long as a mapping of its lives.
    func closeUnlessMapped(_ handle: Handle) {
        if isStillMapped(handle) { lookAgain(handle, after: 0) } else { close(handle) }
    }

    private func lookAgain(_ handle: Handle, after looks: Int) {
        let pause = Self.pauses[min(looks, Self.pauses.count - 1)]
        engine.timers.schedule(at: Engine.now.nanoseconds + pause) { [self] in
            work(on: handle.node) { [self] in
                if isStillMapped(handle) { lookAgain(handle, after: looks + 1) } else { close(handle) }
            }
        }
    }

    /// Whether somebody can store to a file by way of a handle that is open nowhere. Of several that may, the last one closed
    /// stands for all mappings: while others have the file open nobody can tell.
    private func isStillMapped(_ handle: Handle) -> Bool {
        guard !hasEnded, handle.storesPastUs, handles.writers(on: handle.node).allSatisfy({ $0 === handle })
        else { return false }
        do throws(Errno) {
            let below = try handle.node.descriptor()
            return try below.descriptor.reopen(flags: O_RDONLY | O_NONBLOCK).hasWriter()
        } catch {
            // As without the question.
            return false
        }
    }
}
