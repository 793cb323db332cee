// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// One fact about the world, as told to the ``Arbiter``.
public enum Event: Hashable, Sendable {
    case claimed(Request)
    /// Who made a claim; follows ``Effect/identify(_:)``, once per claim.
    indirect case identified(ClaimID, Party)
    /// Follows ``Effect/observe(_:)``. The claim may have ended meanwhile.
    case observed(ClaimID, Observation)
    /// The handle was released, or the request was carried out.
    case ended(ClaimID)
    /// The claimant no longer waits: it was interrupted, or died.
    case withdrawn(ClaimID)
    /// The claimant cannot wait any longer and must be let through (a stopped or frozen thread).
    case forced(ClaimID)
    /// A name was vacated in the middle of a save. Held handle claims on `document` go on as claims on
    /// `orphan`, because that is the file they have open; those who wait go on waiting for `document`.
    case vacated(document: ItemID, orphan: ItemID)
    /// The file that was `incoming` is the document from now on: every claim on `incoming` becomes one on
    /// `document`. Claims held through handles of the replaced file, if there was one, go to `orphan`.
    case replaced(document: ItemID, incoming: ItemID, orphan: ItemID?)
    /// Somebody shows an item from now on.
    indirect case presented(Presenter)
    /// A presenter was removed, or its process died.
    case removed(PresenterID)
    /// Follows ``Effect/ask(_:)``; late ones and those to questions that are over count as signs of life.
    case answered(QuestionID, by: PresenterID, Answer)
    /// A presenter is at work on an answer.
    case progressed(QuestionID)
    /// Contents or attributes of an item were written: under a claim that is about to end, or under none. Equal
    /// stamps mean that nothing has changed in between.
    indirect case changed(ItemID, Cause, under: ClaimID?, stamp: UInt64)
    /// An item is called something else now.
    indirect case moved(ItemID, by: Party)
    /// An item that was vacated like one that is saved is gone for good.
    indirect case lost(ItemID, by: Party)
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
    /// Put a request to a presenter; ``Event/answered(_:by:_:)`` follows, or its deadline.
    indirect case ask(Question)
    /// The deadline of a request came first.
    indirect case forfeit(Question, isDemoted: Bool)
    /// Tell a presenter; what is told to one presenter must reach it in this order, requests included.
    indirect case tell(PresenterID, TurnID, PresenterNotice, Cause)
    /// Send ``Event/tick`` at this moment, or earlier.
    case wake(at: Instant)
}
