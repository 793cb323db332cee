// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import LinuxSystem
import Synchronization
import VersionStore

/// A copy of the contents that others left in a file beside writers that had changed nothing (D149).
///
/// It is preserved if such a writer overwrites the contents. It is discarded when all of these have closed the file, or
/// others have left other contents.
final class ProvisionalCopy: Sendable {
    private let copy: Mutex<UnfinishedCopy?>
    private let store: VersionStore?
    /// The reason why there is no copy of contents that may be missed.
    let failure: StoreError?

    init(_ copy: consuming UnfinishedCopy?, in store: VersionStore?, failure: StoreError? = nil) {
        self.copy = Mutex(copy)
        self.store = store
        self.failure = failure
    }

    deinit {
        if let copy = take(), let store { store.discard(copy) }
    }

    /// Nil if it was taken already, or could not be copied.
    func take() -> UnfinishedCopy? { copy.withLock { $0.take() } }
}

extension ContentPreserver {
    /// Copies the contents of a file without waiting for the disk. If the requester is not the owner, the copy
    /// counts towards the quota for other users.
    func makeProvisionalCopy(in node: Node, by subject: any JournalSubject) -> ProvisionalCopy {
        do throws(StoreError) {
            let descriptor = try Self.descriptor(of: node)
            guard let store, try Self.status(of: descriptor).size > 0 else {
                return ProvisionalCopy(nil, in: nil)
            }
            let request = PreservationRequest(
                path: node.path, cause: .suspendedWriter, user: subject.requester)
            let copy = try store.copyWithoutSync(descriptor.descriptor, for: request, need: .possible)
            return ProvisionalCopy(copy, in: store)
        } catch {
            // The file is too large to copy, or there is no space; the contents may never be missed.
            return ProvisionalCopy(nil, in: nil, failure: error)
        }
    }

    /// Preserves the copy, because a writer may have overwritten its contents.
    func preserve(_ left: ProvisionalCopy, in node: Node, by subject: any JournalSubject) {
        if let failure = left.failure {
            engine.logAction(
                "may have overwritten contents that could not be preserved (\(failure))", subject.attribution)
        }
        guard let store, let copy = left.take() else { return }
        do throws(StoreError) {
            let closed = Self.closedDirectories(above: node)
            let id = try store.record(
                copy, path: node.path, cause: .suspendedWriter, closed: closed, by: subject.requester)
            note(id, .suspendedWriter, of: node, by: subject)
        } catch {
            engine.logAction(
                "may have overwritten contents that could not be preserved (\(error))", subject.attribution)
        }
    }
}
