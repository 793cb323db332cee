// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A name that is missing in the middle of a save: renamed aside or unlinked, not yet filled again.
package struct PendingSave: Hashable, Sendable {
    /// The reason why the missing name is taken for part of a save and not for a move or a deletion.
    package enum Evidence: Hashable, Sendable {
        /// The document went to the name of a backup.
        case backupName
        /// Its saver made a temp or swap file for it.
        case helperFile
        /// The program replaces files by unlinking and creating them.
        case program
        /// Its saver works for a presenter of the document that has an open question.
        case presenter
        /// Only the step, which moved a presented document: the program may use its own names for backups. The document
        /// goes with the file until the program fills the name (``MovedDocuments``).
        case move
        /// Only the step, which removed a presented document.
        case removal

        /// Whether the program may as well have moved or removed the document; a short wait decides.
        package var isStepAlone: Bool { self == .move || self == .removal }
    }

    /// How a pending save ends.
    package enum End: Sendable {
        /// The name has an item again; see ``FillOutcome``.
        case filled
        /// Its saver gave the old file its name back.
        case rolledBack
        /// The name stays missing: the saver took too long, is gone, or the moved document is used where it is.
        case expired
    }

    /// The other programs that the missing name concerns.
    package enum Audience: Hashable, Sendable {
        /// Presenters of a directory above: they are told of the save as one change, and do not wait for the name.
        case listeners
        /// Programs that present the document, have it open or wait for it.
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
    /// The claim that holds the document for the saver until the pending save closes.
    ///
    /// It is part of this value, because the name may be vacated again before the close was carried out.
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

    /// When the pending save ends, however busy the saver is.
    package var latestEnd: Instant {
        opened + (evidence.isStepAlone ? SaveLimits.stepWait : SaveLimits.pendingLongest)
    }

    /// Whether an item that this process puts under the name is the document's next contents.
    ///
    /// If the step alone is the evidence, only the same program counts: a sibling in one shell is another command.
    package func isSaved(by saver: SavingProcess?) -> Bool {
        guard let saver else { return false }
        return evidence.isStepAlone ? saver.isOneProgram(with: self.saver) : saver.isSameSave(as: self.saver)
    }
}

/// How a vacated name was filled again.
package enum FillOutcome: Hashable, Sendable {
    /// By its saver: both steps were one save of the document.
    case save(PendingSave)
    /// By another program: the step was a move or a deletion, and this is a new file.
    case change(PendingSave)
}

extension FillOutcome {
    var pendingSave: PendingSave {
        switch self {
        case .save(let pendingSave), .change(let pendingSave): pendingSave
        }
    }
}
