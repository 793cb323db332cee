// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Synchronization

/// Handles that stay open after their RELEASE, while a shared mapping of the file may still be changed (D131).
///
/// Under passthrough, the kernel maps the file below. At close(2) the kernel sends RELEASE, although the program may still
/// change the mapping. So the daemon closes such a handle only when no program can change the file by a mapping any more. Until
/// then the handle counts as open: its claim is held. Changes by the mapping are preserved before another claim preempts that
/// claim.
///
/// When the daemon gets RELEASE, the kernel has not finished closing the file below. For some microseconds the file below still
/// counts as open for writing. So the next access to the file checks again whether it is open for writing.
extension DataPlane {
    private static let asks = 3

    /// Whether a shared mapping made through this handle may exist longer than the handle's descriptor.
    ///
    /// The daemon detects a mapping by the fact that the file is open for writing. But a program that writes out of band also
    /// has the file open for writing. So the daemon checks for writers when it opens the first handle that may map the file.
    /// Later handles get the result of that check.
    func mayOutlive(_ handle: Handle, isNew: Bool) -> Bool {
        // Databases and their companion files need no claims, because their programs have these files open as long as they map
        // them.
        guard handle.isClaimed, handle.mapsPassthrough else { return false }
        if isNew { return true }
        let writers = handles.writers(on: handle.node)
        guard writers.isEmpty else { return writers.contains(where: \.mayOutlive) }
        // A program that is closing the file may still count as a writer, so the check is repeated.
        for _ in 0..<Self.asks {
            if !isWritten(handle.node) { return true }
            sched_yield()
        }
        return false
    }

    /// Whether no other open handle may write to the handle's file.
    func isAlone(_ handle: Handle) -> Bool {
        handles.writers(on: handle.node).allSatisfy { $0 === handle }
    }

    /// Whether any program has the file open for writing, or has a shared writable mapping of it.
    func isWritten(_ node: Node) -> Bool {
        do throws(Errno) {
            return try node.descriptor().descriptor.reopen(flags: O_RDONLY | O_NONBLOCK).hasWriter()
        } catch {
            // If the check fails with an error, the daemon assumes that no program has the file open for writing or mapped.
            return false
        }
    }
}

/// The handles that remain after their RELEASE because a mapping may still change the file; at most one for each file.
final class LingeringHandles: Sendable {
    private let handles = Mutex<[ObjectIdentifier: Handle]>([:])
    private let count = Atomic<Int>(0)

    /// Whether the table is empty. Requests check this before they search the table, because this check takes no mutex.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    func handle(on node: Node) -> Handle? {
        handles.withLock { $0[ObjectIdentifier(node)] }
    }

    func add(_ handle: Handle) { change { $0[ObjectIdentifier(handle.node)] = handle } }

    /// Removes a handle. Returns false if the table does not contain it.
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
