// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// What presenters are told of files. Nobody is looked up for a file that nobody shows.
///
/// A request that changes something tells of it before it is answered, so that whoever asks afterwards finds
/// it told.
extension CoordinatedFilesystem {
    /// A file was written, or its attributes.
    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, by party: () -> Party
    ) {
        guard engine.isAttended else { return }
        let item = node.item
        guard engine.isPresented(item) else { return }
        engine.noteChange(of: item, at: Place(), by: party(), access, under: claim, stamp: stamp(of: node))
    }

    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, byThread thread: Int32
    ) {
        noteChange(of: node, access, under: claim) { processes.currentParty(ofThread: thread) }
    }

    /// A handle is about to be closed.
    func noteChange(by handle: Handle) {
        guard engine.isAttended, handle.hasChanged else { return }
        let claim = handle.isClaimed ? handle.currentClaim : nil
        noteChange(of: handle.node, handle.access, under: claim) { handle.identify() }
    }

    /// A file or a directory has another name: so have all documents at it and below it.
    func noteMove(of node: Node, byThread thread: Int32) {
        tell(documents.moved(node), movedByThread: thread)
    }

    func tell(_ items: [ItemID], movedByThread thread: Int32) {
        guard engine.isAttended else { return }
        for item in items where engine.isPresented(item) {
            engine.noteMove(of: item, Move(), by: processes.currentParty(ofThread: thread))
        }
    }

    private func stamp(of node: Node) -> UInt64 {
        do throws(Errno) {
            return Stamp(try node.descriptor().descriptor.status()).number
        } catch {
            // A file that cannot be looked at is taken to have changed.
            return Engine.now.nanoseconds
        }
    }
}

extension Handle {
    /// Whether others find something else in the file, or under its name, than before it was opened.
    fileprivate var hasChanged: Bool {
        if truncates || state.withLock({ $0.fillsName }) { return true }
        return mayWrite && mayHaveWritten
    }
}
