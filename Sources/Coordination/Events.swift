// SPDX-License-Identifier: Apache-2.0

/// An input of the arbiter.
public enum ArbiterEvent: Hashable, Sendable {
    case claimed(ClaimRequest)
    /// The party of a claim; follows ``Effect/identify(_:)``, once per claim.
    indirect case identified(ClaimID, Party)
    /// Follows ``Effect/observe(_:)``. The claim may have ended meanwhile.
    case observed(ClaimID, Observation)
    /// The program of a handle was observed to lock the file, or is expected to.
    case locked(ClaimID)
    /// The handle was released, or the request was carried out.
    case ended(ClaimID)
    /// The caller no longer waits: it was interrupted, or died.
    case withdrawn(ClaimID)
    /// The caller cannot wait any longer, as its thread is stopped or frozen: the claim goes ahead.
    case forced(ClaimID)
    /// The wait must end now, because the machine is about to sleep. The policy decides the outcome.
    case overdue(ClaimID)
    /// A name was vacated in the middle of a save. Held handle claims on `document` become claims on `orphan`, the
    /// file that they have open. Waiting claims stay on `document`.
    case vacated(document: ItemID, orphan: ItemID)
    /// The file that was `incoming` is the document from now on: every claim on `incoming` becomes a claim on
    /// `document`. Claims held through handles of the replaced file, if there was one, move to `orphan`.
    case replaced(document: ItemID, incoming: ItemID, orphan: ItemID?)
    /// A directory exists, or has become or ceased to be a package. This event comes after that of its parent, and
    /// before any event that names an item in it.
    case placed(ItemID, DirectoryInfo)
    /// No later event names this directory. All items in it were forgotten before.
    case forgotten(ItemID)
    /// The target of a symbolic link has changed.
    indirect case relinked(ItemID, to: ItemID, at: Place)
    /// A presenter was registered.
    indirect case presented(Presenter)
    /// The item of a presenter exists from now on.
    indirect case shown(PresenterID, ItemID, at: Place)
    /// A presenter was removed, or its process died.
    case removed(PresenterID)
    /// Presenters receive no notices of subitems until they are resumed, because there are too many for them.
    case paused([PresenterID])
    /// Presenters receive notices of subitems again. Those in `behind` missed messages that were sent. Those in
    /// `told` were told already that they missed some.
    case resumed([PresenterID], behind: Set<PresenterID>, told: Set<PresenterID>)
    /// Presenters receive no questions and no notices about their own item until ``unmuted(_:)``, because they have
    /// delayed others too long.
    case muted([PresenterID])
    /// Muted presenters are active again. Each receives one notice if it has missed any.
    case unmuted([PresenterID])
    /// Follows ``Effect/ask(_:)``. Late answers, and answers to questions that are over, show that the presenter is
    /// alive.
    case answered(QuestionID, by: PresenterID, Answer)
    /// A presenter works on an answer.
    case progressed(QuestionID)
    /// The presenter has made others wait too long: its time for this question, counted from the asking, is reduced
    /// to this span.
    case hurried(QuestionID, TimeSpan)
    /// Contents or attributes of an item were written, under a claim that is about to end or under none. Equal stamps
    /// mean that nothing has changed in between.
    indirect case changed(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// The same by a program that goes on and may write more. Presenters are told at once.
    indirect case written(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// An item was created.
    indirect case created(ItemID, at: Place, by: Party, under: ClaimID?)
    /// An item has a new name; if it is a directory, the paths of all items in it change, too.
    indirect case moved(ItemID, Move, by: Party, under: ClaimID?)
    /// An item was deleted.
    indirect case deleted(ItemID, at: Place, by: Party, under: ClaimID?)
    /// The name of an item was vacated as in a save, but the item was deleted.
    indirect case lost(ItemID, at: Place, by: Party)
    /// The time has advanced.
    case tick
}

/// An output of the arbiter, which the engine carries out.
public enum Effect: Hashable, Sendable {
    case grant(ClaimID, Grant)
    case refuse(ClaimID, Refusal)
    /// Identify the party of this claim. Sent at most once per claim, and only when it meets another claim.
    case identify(ClaimID)
    /// Observe what this holder has done to its file.
    case observe(ClaimID)
    case suspend(ClaimID, Suspension)
    /// The claim is on another item from now on: the document was replaced, or a symbolic link has another target.
    case retarget(ClaimID, from: ItemID, to: ItemID)
    /// A deadlock was found; the effect that ends it follows.
    indirect case deadlock(Deadlock)
    /// Ask a presenter; ``ArbiterEvent/answered(_:by:_:)`` follows, or its deadline.
    indirect case ask(Question)
    /// A presenter did not answer a question before its deadline.
    indirect case forfeit(Question, isDemoted: Bool)
    /// Tell a presenter. All messages to one presenter, questions included, must be delivered in this order.
    indirect case tell(Notice)
    /// Send ``ArbiterEvent/tick`` at this moment, or earlier.
    case wake(at: Instant)
}

/// A cycle of claims that wait for each other.
public struct Deadlock: Hashable, Sendable {
    /// How the deadlock is ended.
    public enum Resolution: String, Hashable, Sendable, CaseIterable {
        /// A waiting claim goes before other waiting claims, because its resource is not held.
        case overtakes = "passes"
        /// A handle's claim is suspended for all others.
        case suspends
        /// An access over the control socket fails.
        case refuses
        /// A request of an unmodified program goes ahead.
        case proceeds
    }

    /// Each claim waits for the next, or cannot end before it. The last waits for the first.
    public let cycle: [ClaimID]
    public let resolution: Resolution
    /// The claim that is changed to end the deadlock.
    public let claim: ClaimID

    public init(cycle: [ClaimID], _ resolution: Resolution, _ claim: ClaimID) {
        self.cycle = cycle
        self.resolution = resolution
        self.claim = claim
    }
}
