// SPDX-License-Identifier: Apache-2.0
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
extension DataPlane {
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

    /// Whether no other handle may write to its file.
    func isAlone(_ handle: Handle) -> Bool {
        handles.writers(on: handle.node).allSatisfy { $0 === handle }
    }

    /// Whether any program has the file open for writing, or mapped for stores.
    func isWritten(_ node: Node) -> Bool {
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
