// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A document's name that is missing in the middle of a save: the file was renamed or unlinked, and no other file has the
/// name yet.
package struct PendingSave: Hashable, Sendable {
    /// The reason for which the missing name counts as part of a save, and not as a move or a deletion.
    package enum Evidence: Hashable, Sendable {
        /// The document was renamed to the name of a backup.
        case backupName
        /// The saving process made a temporary file or a swap file for the document.
        case helperFile
        /// The program is known to replace files by unlinking them and creating them again.
        case program
        /// The saving process works for a presenter of the document that has not answered a question yet.
        case presenter
        /// There is no reason but the move of a presented document, because a program may give backups names of its own.
        ///
        /// The document goes with the file until the program makes a file under the name (``MovedDocuments``).
        case move
        /// There is no reason but the removal of a presented document.
        case removal

        /// Whether the program may just as well have moved or deleted the document. The name is then missing for only a
        /// short time.
        package var isStepAlone: Bool { self == .move || self == .removal }
    }

    /// The reason for the end of a pending save.
    package enum End: Sendable {
        /// The name has an item again. See ``FillOutcome``.
        case filled
        /// The saving process gave the old file the name back.
        case rolledBack
        /// The name stays missing. The saving process took too long or has ended, or the moved document is used under its
        /// new name.
        case expired
    }

    /// The other programs that the missing name concerns.
    package enum Audience: Hashable, Sendable {
        /// Presenters of a directory above the document. They are told of the save as one change, and do not wait for the
        /// name.
        case listeners
        /// Programs that present the document, have it open or wait for it. Their look-ups of the name wait.
        case users
    }

    package let directory: NodeNumber
    package let name: [UInt8]
    package let document: ItemID
    /// The file that had the name.
    package let oldNode: NodeNumber
    package let saver: SavingProcess
    package let evidence: Evidence
    package let audience: Audience
    /// The thread that took the name away.
    package let thread: Int32
    package let opened: Instant
    /// The claim that holds the document for the saving process until the pending save ends.
    ///
    /// The claim is part of this value, because another pending save of the name may begin before the end of this one is
    /// carried out.
    package let claim: ClaimID

    package init(
        directory: NodeNumber, name: [UInt8], document: ItemID, oldNode: NodeNumber, saver: SavingProcess,
        evidence: Evidence, audience: Audience = .users, thread: Int32 = 0, opened: Instant,
        claim: ClaimID
    ) {
        self.directory = directory
        self.name = name
        self.document = document
        self.oldNode = oldNode
        self.saver = saver
        self.evidence = evidence
        self.audience = audience
        self.thread = thread
        self.opened = opened
        self.claim = claim
    }

    /// The time at which the pending save ends at the latest, even if the saving process goes on.
    package var latestEnd: Instant {
        opened + (evidence.isStepAlone ? SaveLimits.stepWait : SaveLimits.pendingLongest)
    }

    /// Returns whether an item that a process makes under the name has the document's next contents.
    ///
    /// If the step alone is the evidence, the process must be of the same program. A sibling process in a shell is then
    /// another command.
    package func isSaved(by saver: SavingProcess?) -> Bool {
        guard let saver else { return false }
        return evidence.isStepAlone ? saver.isOneProgram(with: self.saver) : saver.isSameSave(as: self.saver)
    }
}

/// The meaning of an item that was made under a missing name.
package enum FillOutcome: Hashable, Sendable {
    /// The saving process made the item. Both steps were a single save of the document.
    case save(PendingSave)
    /// Another program made the item. The first step was a move or a deletion, and the item is a new file.
    case change(PendingSave)
}

extension FillOutcome {
    var pendingSave: PendingSave {
        switch self {
        case .save(let pendingSave), .change(let pendingSave): pendingSave
        }
    }
}
