// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A document that is missing in the middle of a save: its file was renamed or unlinked, and no other file has the
/// document's name yet.
package struct PendingSave: Hashable, Sendable {
    /// The reason why the missing name counts as part of a save, and not as a move or a deletion.
    package enum Evidence: Hashable, Sendable {
        /// The file was renamed to a name that programs give to backups.
        case backupName
        /// The saving process has made a temporary file or a swap file for the document.
        case helperFile
        /// The saving program is in the list of programs that replace a file by unlinking it and creating it again.
        case program
        /// The saving process belongs to a presenter of the document that has not answered a question yet, so it may be
        /// saving for the answer.
        case presenter
        /// The only reason is that a presented document was moved. The program may be making a backup with an unusual
        /// name.
        ///
        /// The document stays with the moved file until the program makes a file under the old name
        /// (``MovedDocuments``).
        case move
        /// The only reason is that a presented document was removed. The program may be replacing it.
        case removal

        /// Whether the move or removal itself is the only evidence of a save. Programs then wait for the name for only
        /// a short time.
        package var isStepAlone: Bool { self == .move || self == .removal }
    }

    /// The way in which a pending save ended.
    package enum End: Sendable {
        /// The name has an item again. ``FillOutcome`` says whether that completes the save.
        case filled
        /// The saving process gave the old file its old name back.
        case rolledBack
        /// The name stays missing: the saving process took too long or has ended, or a program uses the moved document
        /// under its new name.
        case expired
    }

    /// The programs, besides the saving process, that are affected by the missing name.
    package enum Audience: Hashable, Sendable {
        /// Presenters of a directory above the document. They receive a single event for the whole save, and do not
        /// wait for the name.
        case listeners
        /// Programs that present the document, have it open or wait for it. Their look-ups of the name wait.
        case users
    }

    package let directory: NodeNumber
    package let name: [UInt8]
    package let document: ItemID
    /// The file that had the name before it was renamed or unlinked.
    package let oldNode: NodeNumber
    package let saver: SavingProcess
    package let evidence: Evidence
    package let audience: Audience
    /// The thread that renamed or unlinked the file.
    package let thread: Int32
    package let opened: Instant
    /// The claim of the saving process for the document. The claim is held until the pending save ends.
    ///
    /// A second pending save of the name may begin before the end of the first pending save is carried out. So each
    /// pending save stores its own claim, and ends only this claim.
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

    /// The latest time at which the pending save ends, even if the saving process is still making requests.
    package var latestEnd: Instant {
        opened + (evidence.isStepAlone ? SaveLimits.stepWait : SaveLimits.pendingLongest)
    }

    /// Returns whether an item that this process makes under the missing name has the document's next contents.
    ///
    /// Usually a sibling of the saving process may also make the item. If the move or removal is the only evidence,
    /// only the same program may: a sibling in a shell is then probably another command.
    package func isSaved(by saver: SavingProcess?) -> Bool {
        guard let saver else { return false }
        return evidence.isStepAlone ? saver.isOneProgram(with: self.saver) : saver.isSameSave(as: self.saver)
    }
}

/// What it means that an item was made under a missing name.
package enum FillOutcome: Hashable, Sendable {
    /// The saving process made the item, which completes the save of the document.
    case save(PendingSave)
    /// Another program made the item. So the document was moved or deleted before, and the item is a new file.
    case change(PendingSave)
}

extension FillOutcome {
    var pendingSave: PendingSave {
        switch self {
        case .save(let pendingSave), .change(let pendingSave): pendingSave
        }
    }
}
