// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Shared mappings that outlive the descriptor they were made by (D131).
///
/// Where the kernel moves a file's data itself, it maps the file below and not ours, and RELEASE comes at close(2), though its
/// program may go on to store. So a handle by which a file may be mapped is closed when nobody can store to it any more. Until then
/// it counts as one that is open: its claim is held, and what is stored is kept from those who go over it.
///
/// RELEASE comes while the kernel is still closing the file below, which then counts as open to write for some microseconds. But
/// close(2) returns afterwards, so whoever comes to the file next looks again first.
extension CoordinatedFilesystem {
    /// When it is looked again, after so many nanoseconds each time; the last goes on.
    private static let pauses: [UInt64] = [200_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000]
    private static let asks = 3

    /// Whether a handle that is about to be let in may outlive its descriptor. Whoever has the file open to write past the mount would
    /// look like a mapping for as long, so who may map it first asks before; others go by those who have it open.
    func mayOutlive(_ handle: Handle, isNew: Bool) -> Bool {
        // Databases, and what they write besides for each transaction, take no turns, and keep open what they map.
        guard handle.isClaimed, handle.mapsPassthrough else { return false }
        if isNew { return true }
        let writers = handles.writers(on: handle.node)
        guard writers.isEmpty else { return writers.contains { $0.state.withLock { $0.mayOutlive } } }
        // Somebody else's file may just be being closed.
        for _ in 0..<Self.asks {
            if !isWritten(handle.node) { return true }
            sched_yield()
        }
        return false
    }

    /// Closes a handle that the kernel has let go of, or leaves it open as long as a mapping lives. Of several by which the file may
    /// have been mapped the last one stands for all: while others have the file open nobody can tell.
    func closeUnlessMapped(_ handle: Handle) {
        guard handle.state.withLock({ $0.mayOutlive }), isAlone(handle) else { return close(handle) }
        // Or this process would be the one that has the file open to write, if it had to have it reach the disk.
        handle.closeFile()
        guard isWritten(handle.node) else { return close(handle) }
        lingeringHandles.add(handle)
        work(on: handle.node) { [self] in pollMapping(at: handle, after: 0) }
    }

    /// Closes what nobody can store to a file by any more, before somebody does something else with that.
    func closeLingering(on node: Node) {
        guard !lingeringHandles.isEmpty, let handle = lingeringHandles.handle(on: node), isAlone(handle),
            !isWritten(node),
            lingeringHandles.remove(handle)
        else { return }
        close(handle)
    }

    private func pollMapping(at handle: Handle, after looks: Int) {
        closeLingering(on: handle.node)
        guard !hasEnded, lingeringHandles.handle(on: handle.node) === handle else { return }
        let pause = Self.pauses[min(looks, Self.pauses.count - 1)]
        engine.timers.schedule(at: Engine.now.nanoseconds + pause) { [self] in
            work(on: handle.node) { [self] in pollMapping(at: handle, after: looks + 1) }
        }
    }

    private func isAlone(_ handle: Handle) -> Bool {
        handles.writers(on: handle.node).allSatisfy { $0 === handle }
    }

    /// Whether somebody has the file open to write or mapped to store to.
    private func isWritten(_ node: Node) -> Bool {
        do throws(Errno) {
            return try node.descriptor().descriptor.reopen(flags: O_RDONLY | O_NONBLOCK).hasWriter()
        } catch {
            // As without the question.
            return false
        }
    }
}

/// Handles that the kernel has let go of and that may still be stored by, one for each file.
final class LingeringHandles: Sendable {
    private let handles = Mutex<[ObjectIdentifier: Handle]>([:])
    private let count = Atomic<Int>(0)

    /// Whether there is none, which is what the fast paths ask.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    func handle(on node: Node) -> Handle? {
        handles.withLock { $0[ObjectIdentifier(node)] }
    }

    func add(_ handle: Handle) { change { $0[ObjectIdentifier(handle.node)] = handle } }

    /// Returns whether it was there.
    func remove(_ handle: Handle) -> Bool {
        change { handles in
            let file = ObjectIdentifier(handle.node)
            guard handles[file] === handle else { return false }
            handles[file] = nil
            return true
        }
    }

    private func change<Result>(_ body: (inout [ObjectIdentifier: Handle]) -> Result) -> Result {
        handles.withLock { handles in
            defer { count.store(handles.count, ordering: .relaxed) }
            return body(&handles)
        }
    }
}
