// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A name that is missing in the middle of a save: renamed aside or unlinked, not yet filled again.
package struct PendingSave: Hashable, Sendable {
    /// Why the missing name is taken for part of a save and not for a move or a deletion.
    package enum Evidence: Hashable, Sendable {
        /// The document went to a name backups have.
        case backupName
        /// Its actor made a temp or swap file for it.
        case helperFile
        /// The program replaces files by unlinking and creating them.
        case program
        /// Its actor works for a presenter of the document that was asked for something and has not answered.
        case presenter
        /// Nothing but the step, by which a presented document was moved: the program may name its backups in a way of its own.
        /// The document goes with the file until the program fills the name (``MovedDocuments``).
        case move
        /// Nothing but the step, by which a presented document was removed.
        case removal

        /// Whether the program may just as well have moved or removed the document: a short time tells.
        package var isStepAlone: Bool { self == .move || self == .removal }
    }

    /// Which programs besides its actor the missing name concerns.
    package enum Audience: Hashable, Sendable {
        /// Presenters of a directory above: they hear of the save as one change, and do not wait for the name.
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
    /// What keeps the document for the actor until the window closes. Part of the vacancy, because the name
    /// may be vacated again before the end of this window was carried out.
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

    /// When the window ends however busy the actor is.
    package var latestEnd: Instant {
        opened + (evidence.isStepAlone ? SaveLimits.stepWait : SaveLimits.pendingLongest)
    }

    /// Whether what an actor puts under the name is the document's next contents.
    ///
    /// Where the step alone is the evidence, only the same program can mean that: a sibling in one shell is another command.
    package func isSaved(by saver: SavingProcess?) -> Bool {
        guard let saver else { return false }
        return evidence.isStepAlone ? saver.isOneProgram(with: self.saver) : saver.isSameSave(as: self.saver)
    }
}

/// How a vacated name was filled again.
package enum FillOutcome: Hashable, Sendable {
    /// By its actor: both steps were one save of the document.
    case save(PendingSave)
    /// By somebody else: what looked like a save was a move or a deletion, and this is a new file.
    case change(PendingSave)
}
