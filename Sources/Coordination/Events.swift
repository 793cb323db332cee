// SPDX-License-Identifier: Apache-2.0

/// One fact about the world, as told to the arbiter.
public enum ArbiterEvent: Hashable, Sendable {
    case claimed(ClaimRequest)
    /// Who made a claim; follows ``Effect/identify(_:)``, once per claim.
    indirect case identified(ClaimID, Party)
    /// Follows ``Effect/observe(_:)``. The claim may have ended meanwhile.
    case observed(ClaimID, Observation)
    /// The program of a handle was seen to lock the file, or is expected to.
    case locked(ClaimID)
    /// The handle was released, or the request was carried out.
    case ended(ClaimID)
    /// The claimant no longer waits: it was interrupted, or died.
    case withdrawn(ClaimID)
    /// The claimant cannot wait any longer and must be let through (a stopped or frozen thread).
    case forced(ClaimID)
    /// The claimant has no more time: the machine is about to stand still. What becomes of it is the policy's to say.
    case overdue(ClaimID)
    /// A name was vacated in the middle of a save. Held handle claims on `document` go on as claims on
    /// `orphan`, because that is the file they have open; those who wait go on waiting for `document`.
    case vacated(document: ItemID, orphan: ItemID)
    /// The file that was `incoming` is the document from now on: every claim on `incoming` becomes one on
    /// `document`. Claims held through handles of the replaced file, if there was one, go to `orphan`.
    case replaced(document: ItemID, incoming: ItemID, orphan: ItemID?)
    /// A directory is there, or is a package from now on, or none any more. Told before anything in it is named; its
    /// parent is told before it.
    case placed(ItemID, DirectoryInfo)
    /// Nobody will name this directory again; there is nothing in it that anybody has named and not forgotten.
    case forgotten(ItemID)
    /// A symbolic link leads elsewhere now.
    indirect case relinked(ItemID, to: ItemID, at: Place)
    /// Somebody shows an item from now on.
    indirect case presented(Presenter)
    /// What a presenter shows exists from now on.
    indirect case shown(PresenterID, ItemID, at: Place)
    /// A presenter was removed, or its process died.
    case removed(PresenterID)
    /// Presenters are told of no names below what they show until they are resumed: there is too much of it for them.
    case paused([PresenterID])
    /// Those who are `behind` were sent something that did not reach them; those who are `told` hear that there was more without that.
    case resumed([PresenterID], behind: Set<PresenterID>, told: Set<PresenterID>)
    /// Presenters are neither asked nor told of what they show until they are ``unmuted(_:)``: that has cost others too much.
    case muted([PresenterID])
    /// They hear once that they have missed something, if so.
    case unmuted([PresenterID])
    /// Follows ``Effect/ask(_:)``; late ones and those to questions that are over count as signs of life.
    case answered(QuestionID, by: PresenterID, Answer)
    /// A presenter is at work on an answer.
    case progressed(QuestionID)
    /// Its presenter has made others wait too long already: so much is it given in all, and not what it had.
    case hurried(QuestionID, TimeSpan)
    /// Contents or attributes of an item were written: under a claim that is about to end, or under none. Equal
    /// stamps mean that nothing has changed in between.
    indirect case changed(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// The same of a program that goes on and may write more. It is told at once.
    indirect case written(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// There is a new item.
    indirect case created(ItemID, at: Place, by: Party, under: ClaimID?)
    /// An item is called something else now; if it is a directory, all that is in it with it.
    indirect case moved(ItemID, Move, by: Party, under: ClaimID?)
    /// An item is not there any more.
    indirect case deleted(ItemID, at: Place, by: Party, under: ClaimID?)
    /// An item that was vacated like one that is saved is gone for good.
    indirect case lost(ItemID, at: Place, by: Party)
    /// Time passed.
    case tick
}

/// One thing the world must now do.
public enum Effect: Hashable, Sendable {
    case grant(ClaimID, Grant)
    case refuse(ClaimID, Refusal)
    /// Say who made this claim. Given at most once per claim, and only when it meets another.
    case identify(ClaimID)
    /// Look at what this holder has done to its file.
    case observe(ClaimID)
    case suspend(ClaimID, Suspension)
    /// A claim is on another item from now on: what it is to replace, or what it waits to resolve, is another.
    case retarget(ClaimID, from: ItemID, to: ItemID)
    /// A cycle was found; what is done about it follows.
    indirect case deadlock(Deadlock)
    /// Put a request to a presenter; ``ArbiterEvent/answered(_:by:_:)`` follows, or its deadline.
    indirect case ask(Question)
    /// The deadline of a request came first.
    indirect case forfeit(Question, isDemoted: Bool)
    /// Tell a presenter; what is told to one presenter must reach it in this order, requests included.
    indirect case tell(Notice)
    /// Send ``ArbiterEvent/tick`` at this moment, or earlier.
    case wake(at: Instant)
}

/// A cycle of claims of which none can go on.
public struct Deadlock: Hashable, Sendable {
    /// What is done about it.
    public enum Resolution: String, Hashable, Sendable, CaseIterable {
        /// A waiting claim goes before others that wait, because nobody holds what it wants.
        case overtakes = "passes"
        /// A handle lets everybody pass.
        case suspends
        /// An access over the control socket fails.
        case refuses
        /// A request of an unmodified program goes ahead.
        case proceeds
    }

    /// Each waits for the next, or cannot end before it; the last for the first.
    public let cycle: [ClaimID]
    public let resolution: Resolution
    /// Whom it is done to.
    public let claim: ClaimID

    public init(cycle: [ClaimID], _ resolution: Resolution, _ claim: ClaimID) {
        self.cycle = cycle
        self.resolution = resolution
        self.claim = claim
    }
}
