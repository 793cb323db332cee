// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Handles that stay claimed while a shared mapping outlives their descriptor (D131).
///
/// With passthrough, the kernel maps the file below. RELEASE comes at close(2), though the program may still store to the
/// mapping. So such a handle is closed only when no program can store to the file any more. Until then it counts as open:
/// its claim is held, and its stores are preserved before another claim preempts it.
///
/// RELEASE comes while the kernel is still closing the file below, which counts as open for writing for some microseconds.
/// The next access to the file therefore polls it again.
extension CoordinatedFilesystem {
    /// The pauses before each poll, in nanoseconds; the last one repeats.
    private static let pauses: [UInt64] = [200_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000]
    private static let asks = 3

    /// Whether a handle that is about to be opened may outlive its descriptor. A writer that has the file open out of band
    /// looks like a mapping. So the first handle that may map the file checks for writers before; later ones copy the
    /// result.
    func mayOutlive(_ handle: Handle, isNew: Bool) -> Bool {
        // Databases and their companion files need no claims, and hold open the files that they map.
        guard handle.isClaimed, handle.mapsPassthrough else { return false }
        if isNew { return true }
        let writers = handles.writers(on: handle.node)
        guard writers.isEmpty else { return writers.contains(where: \.mayOutlive) }
        // Another program's file may still be in the middle of its close.
        for _ in 0..<Self.asks {
            if !isWritten(handle.node) { return true }
            sched_yield()
        }
        return false
    }

    /// Closes a handle after its RELEASE, or leaves it open as long as a mapping lives.
    ///
    /// The last of several handles that may have mapped the file stands for all. While others are open, mappings cannot be
    /// detected.
    func closeUnlessMapped(_ handle: Handle) {
        guard handle.mayOutlive, isAlone(handle) else { return close(handle) }
        // Otherwise this process, which may have the file open for fsync, would count as the writer.
        handle.closeFile()
        guard isWritten(handle.node) else { return close(handle) }
        handle.beginLingering()
        lingeringHandles.add(handle)
        work(on: handle.node) { [self] in pollMapping(at: handle, after: 0) }
    }

    /// Closes the lingering handle of a file that no program can store to any more, before the next access.
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

    /// Whether any program has the file open for writing, or mapped for stores.
    private func isWritten(_ node: Node) -> Bool {
        do throws(Errno) {
            return try node.descriptor().descriptor.reopen(flags: O_RDONLY | O_NONBLOCK).hasWriter()
        } catch {
            // Without an answer, the handle is treated as one without a mapping.
            return false
        }
    }
}

/// Released handles through which a mapping may still be changed, one for each file.
final class LingeringHandles: Sendable {
    private let handles = Mutex<[ObjectIdentifier: Handle]>([:])
    private let count = Atomic<Int>(0)

    /// Whether there are none; the fast paths check only this.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    func handle(on node: Node) -> Handle? {
        handles.withLock { $0[ObjectIdentifier(node)] }
    }

    func add(_ handle: Handle) { change { $0[ObjectIdentifier(handle.node)] = handle } }

    /// Removes a handle. Returns whether it was there.
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
