// SPDX-License-Identifier: Apache-2.0

/// An input of the arbiter: something that has happened.
public enum ArbiterEvent: Hashable, Sendable {
    case claimed(ClaimRequest)
    /// The party that made a claim is known; the engine sends this after ``Effect/identify(_:)``, once per claim.
    indirect case identified(ClaimID, Party)
    /// A holder was observed; the engine sends this after ``Effect/observe(_:)``. The claim may have ended meanwhile.
    case observed(ClaimID, Observation)
    /// The program of the claim's handle was seen to lock the file, or is expected to lock it.
    case locked(ClaimID)
    /// The program has closed the claim's handle. The claim ends when the engine has done the work of the close.
    case closed(ClaimID)
    /// The claim is over: its handle was closed, or its request was carried out.
    case ended(ClaimID)
    /// The program no longer waits for its claim: the call was interrupted, or the program died.
    case withdrawn(ClaimID)
    /// The program cannot wait for its claim any longer, because its thread is stopped or frozen. The claim is granted
    /// immediately.
    case forced(ClaimID)
    /// The claim must stop waiting now, because the machine is about to sleep. The policy decides whether the claim is
    /// granted or refused.
    case overdue(ClaimID)
    /// A program has removed the name of a document in the middle of a save. Claims that handles hold on `document`
    /// become claims on `orphan`, the file that the handles have open. Waiting claims stay on `document`.
    case vacated(document: ItemID, orphan: ItemID)
    /// A save has given the document's name to the file `incoming`. Every claim on `incoming` becomes a claim on
    /// `document`. If a file was replaced, the claims that handles hold on it become claims on `orphan`.
    case replaced(document: ItemID, incoming: ItemID, orphan: ItemID?)
    /// A directory exists, or has become or ceased to be a package. The engine sends this event after the event for
    /// the parent directory, and before any event about an item in the directory.
    case placed(ItemID, DirectoryInfo)
    /// A directory is gone, and no later event contains its number. All items in the directory were forgotten before
    /// this event.
    case forgotten(ItemID)
    /// The target of a symbolic link has changed.
    indirect case relinked(ItemID, to: ItemID, at: Place)
    /// A presenter was registered.
    indirect case presented(Presenter)
    /// The item of a presenter exists from now on; until now the presenter was registered for a missing item.
    indirect case shown(PresenterID, ItemID, at: Place)
    /// A presenter was removed, or its process died.
    case removed(PresenterID)
    /// The presenters receive no notices about items in their directory until `resumed`, because there were too many
    /// notices.
    case paused([PresenterID])
    /// The presenters receive notices about items in their directory from now on. The presenters in `behind` have lost
    /// notices that the arbiter sent. The presenters in `told` know already that they missed notices.
    case resumed([PresenterID], behind: Set<PresenterID>, told: Set<PresenterID>)
    /// The presenters receive no questions and no notices about their own item until ``unmuted(_:)``, because they
    /// have delayed other programs too long.
    case muted([PresenterID])
    /// The presenters receive questions and notices about their own item from now on. A presenter that missed any
    /// notice receives a single notice now.
    case unmuted([PresenterID])
    /// A presenter has answered; this follows ``Effect/ask(_:)``. An answer that comes too late still shows that the
    /// presenter is alive.
    case answered(QuestionID, by: PresenterID, Answer)
    /// A presenter reports that it still works on the answer to a question.
    case progressed(QuestionID)
    /// A presenter has made other programs wait too long. The presenter must answer this question within the given span
    /// after the question was asked.
    case hurried(QuestionID, TimeSpan)
    /// Contents or attributes of an item were written. `under` is the claim of the write, which is about to end, or
    /// nil. Two events with equal stamps mean that nothing has changed between them.
    indirect case changed(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// Contents or attributes of an item were written by a program that perhaps writes more. Presenters are told
    /// immediately. `under` and `stamp` mean the same as for `changed`.
    indirect case written(ItemID, at: Place, Cause, under: ClaimID?, stamp: UInt64)
    /// An item was created.
    indirect case created(ItemID, at: Place, by: Party, under: ClaimID?)
    /// An item has a new name. If the item is a directory, the paths of all items in the directory change, too.
    indirect case moved(ItemID, Move, by: Party, under: ClaimID?)
    /// An item was deleted.
    indirect case deleted(ItemID, at: Place, by: Party, under: ClaimID?)
    /// A name was removed as if in a save, but no file has taken the name: the item was deleted.
    indirect case lost(ItemID, at: Place, by: Party)
    /// The store has gained or lost a version of an item, or a conflict version was marked as resolved.
    indirect case versioned(ItemID, at: Place, VersionChange, Cause)
    /// Time has advanced: the arbiter handles the timers that are due.
    case tick
}

/// An output of the arbiter: a step that the engine carries out.
public enum Effect: Hashable, Sendable {
    case grant(ClaimID, Grant)
    case refuse(ClaimID, Refusal)
    /// Find out which party made this claim. The arbiter sends this effect at most once per claim.
    case identify(ClaimID)
    /// Find out how this holder has used its file.
    case observe(ClaimID)
    case suspend(ClaimID, Suspension)
    /// The claim is on another item from now on: the claim stays with a name that its item has lost, or a symbolic link
    /// has another target.
    case retarget(ClaimID, from: ItemID, to: ItemID)
    /// A deadlock was found; the next effect ends the deadlock.
    indirect case deadlock(Deadlock)
    /// Send a question to a presenter. Later the arbiter receives ``ArbiterEvent/answered(_:by:_:)``, or the deadline
    /// of the question comes.
    indirect case ask(Question)
    /// A presenter did not answer a question before its deadline.
    indirect case forfeit(Question, isDemoted: Bool)
    /// Send a notice to a presenter. The engine must deliver the questions and notices for one presenter in the order
    /// of their effects.
    indirect case tell(Notice)
    /// Send ``ArbiterEvent/tick`` at this moment or earlier.
    case wake(at: Instant)
}

/// A cycle of claims, each of which waits for the next.
public struct Deadlock: Hashable, Sendable {
    /// The step that ends the deadlock.
    public enum Resolution: String, Hashable, Sendable, CaseIterable {
        /// A waiting claim is granted before earlier waiting claims. This is possible if no holder blocks the claim.
        case overtakes = "passes"
        /// A held claim of a handle is suspended: no other claim waits for it any more.
        case suspends
        /// An access over the control socket is refused.
        case refuses
        /// The claim of an unmodified program's request is granted, although it is blocked.
        case proceeds
    }

    /// The claims of the cycle, in order. Each claim waits for the next, or is held and cannot end before the next has
    /// ended. The last claim waits for the first.
    public let cycle: [ClaimID]
    public let resolution: Resolution
    /// The claim that is granted, suspended or refused to end the deadlock.
    public let claim: ClaimID

    public init(cycle: [ClaimID], _ resolution: Resolution, _ claim: ClaimID) {
        self.cycle = cycle
        self.resolution = resolution
        self.claim = claim
    }
}
