// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import LinuxSystem
import Synchronization
import VersionStore

/// A copy of the contents that another program left in a file. Writers that had changed nothing when they were
/// suspended or preempted still have the file open (D149).
///
/// If one of these writers overwrites the contents, the copy becomes a version. The copy is discarded when all these
/// writers have closed the file, or when another program leaves newer contents.
final class ProvisionalCopy: Sendable {
    private let copy: Mutex<UnfinishedCopy?>
    private let store: VersionStore?
    /// The error because of which the contents were not copied. Nil if they were copied, or if the file was empty.
    let failure: StoreError?

    init(_ copy: consuming UnfinishedCopy?, in store: VersionStore?, failure: StoreError? = nil) {
        self.copy = Mutex(copy)
        self.store = store
        self.failure = failure
    }

    deinit {
        if let copy = take(), let store { store.discard(copy) }
    }

    /// Takes the copy out of this object. Returns nil if it was already taken, or if none was made.
    func take() -> UnfinishedCopy? { copy.withLock { $0.take() } }
}

extension ContentPreserver {
    /// Copies the contents of a file. Does not wait for the disk. If the requester is not the file's owner, the copy
    /// counts towards the limit for other users' versions.
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
            // The file is too large to copy, or the disk is full. The error is reported later, and only if a writer
            // overwrites the contents.
            return ProvisionalCopy(nil, in: nil, failure: error)
        }
    }

    /// Makes a version of a provisional copy, because a writer may have overwritten the copied contents.
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
