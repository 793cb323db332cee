// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization
import VersionStore

/// What others left in a file beside writers that had changed nothing (D149). It is kept if one of these goes over it, and
/// forgotten when all of them have closed the file, or others have left something else.
final class ProvisionalCopy: Sendable {
    private let copy: Mutex<UnfinishedCopy?>
    private let store: VersionStore?
    /// Why there is no copy of contents that may be missed.
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
    /// Copies what a file holds, without waiting for the disk. If the one that leaves it is not the owner, it takes the room of others.
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
            // Too long to be copied, or there is no room: it may never be missed.
            return ProvisionalCopy(nil, in: nil, failure: error)
        }
    }

    /// A writer may have gone over it.
    func preserve(_ left: ProvisionalCopy, in node: Node, by subject: any JournalSubject) {
        if let failure = left.failure {
            engine.logAction(
                "may have gone over contents that could not be kept (\(failure))", subject.attribution)
        }
        guard let store, let copy = left.take() else { return }
        do throws(StoreError) {
            let closed = Self.closedDirectories(above: node)
            let id = try store.record(
                copy, path: node.path, cause: .suspendedWriter, closed: closed, by: subject.requester)
            note(id, .suspendedWriter, of: node, by: subject)
        } catch {
            engine.logAction(
                "may have gone over contents that could not be kept (\(error))", subject.attribution)
        }
    }
}
