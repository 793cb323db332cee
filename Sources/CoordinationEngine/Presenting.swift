// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import Synchronization

/// A document that somebody shows or asked for by name, followed wherever it moves.
package protocol TrackedDocument: AnyObject, Sendable {
    var item: ItemID { get }
    /// What it is called now, below the root and without a leading slash. On any thread, under no lock.
    var path: [UInt8] { get }
    /// Whoever found it needs it no longer; called exactly once.
    func release()
}

/// What the control socket asks of the file system. Everything may block: call it on workers.
package protocol DocumentSource: Sendable {
    /// Follows a path from the root of the source, through no symbolic link but in the last part, which is not
    /// followed. A last name that does not exist is a document that does not exist yet.
    func find(_ path: [UInt8]) throws(FindingFailure) -> any TrackedDocument
    /// Who a process is now; nobody if it is gone.
    func party(ofProcess process: Int32) -> Party
}

package enum FindingFailure: Error, Hashable, Sendable {
    /// A directory on the way does not exist, or is none.
    case notFound
    /// Our own directory, or a symbolic link on the way.
    case denied
    /// The number of an error of the file system below.
    case system(Int32)
}

/// Something to be sent to a presenter.
package struct PresenterMessage: Sendable {
    package enum Content: Sendable {
        case request(QuestionID, PresenterRequest, deadline: Instant)
        case notice(PresenterNotice)
    }

    package let presenter: PresenterID
    /// Pairs what is relinquished with what is reacquired.
    package let turn: TurnID
    package let content: Content
    package let cause: Cause
    package let document: any TrackedDocument
}

/// Messages to the presenters of one connection, in the order in which they were decided.
package final class Mailbox: Sendable {
    private let messages = Mutex<[PresenterMessage]>([])
    private let wake: @Sendable () -> Void

    /// `wake` is called on any thread after messages were put in, and must not block.
    package init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

    package func take() -> [PresenterMessage] {
        messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
    }

    func put(_ message: PresenterMessage) { messages.withLock { $0.append(message) } }
    func deliver() { wake() }
}

/// Who stands behind a presenter.
final class PresenterEntry: JournalSubject {
    let document: any TrackedDocument
    let party: Party
    let messages: PresenterMessages
    let mailbox: Mailbox

    init(_ document: any TrackedDocument, by party: Party, _ messages: PresenterMessages, in mailbox: Mailbox)
    {
        self.document = document
        self.party = party
        self.messages = messages
        self.mailbox = mailbox
    }

    var account: Account {
        Account(thread: party.process?.number ?? 0, program: party.program) { [document] in document.path }
    }
}

// Presenters come and go, and answer.
extension Engine {
    /// Registers a presenter; its messages go to the mailbox from now on.
    ///
    /// The document is released when the presenter is removed.
    package func present(
        _ document: any TrackedDocument, by party: Party, implementing messages: PresenterMessages,
        in mailbox: Mailbox
    ) -> PresenterID {
        let id = PresenterID(makeClaimID().rawValue)
        let entry = PresenterEntry(document, by: party, messages, in: mailbox)
        state.withLock { $0.presenters[id] = entry }
        var item = document.item
        submit(.presented(Presenter(id, of: item, by: party, messages)))
        // The document may have become part of another before the arbiter knew of the presenter, which would
        // be left behind where nothing happens any more. Whoever follows documents changes its own mind first.
        while document.item != item {
            item = document.item
            submit(.removed(id))
            submit(.presented(Presenter(id, of: item, by: party, messages)))
        }
        return id
    }

    /// Removes a presenter: what it owes counts as consent, and nothing is sent to it any more.
    package func remove(_ presenter: PresenterID) {
        let entry = state.withLock { $0.presenters.removeValue(forKey: presenter) }
        submit(.removed(presenter))
        entry?.document.release()
    }

    /// A presenter answered; an answer that is late or to nothing is harmless.
    package func answer(_ question: QuestionID, of presenter: PresenterID, _ answer: Answer) {
        submit(.answered(question, by: presenter, answer))
    }

    /// A presenter is at work and asks for more time.
    package func progress(_ question: QuestionID) { submit(.progressed(question)) }
}

// What the file system reports of presented items.
extension Engine {
    /// Whether anybody presents anything or claims anything over the socket: what the fast paths ask.
    package var isAttended: Bool { attended.load(ordering: .relaxed) }

    package func isPresented(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isPresented(item) } }

    /// Whether a party works for a presenter of an item that owes somebody an answer.
    package func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        state.withLock { $0.arbiter.owesAnswer(party, about: item) }
    }

    /// Contents or attributes were written; see `Event.changed`.
    package func noteChange(
        of item: ItemID, by party: Party, _ access: Access, under claim: ClaimID?, stamp: UInt64
    ) {
        submit(.changed(item, at: Place(), Cause(party, access), under: claim, stamp: stamp))
    }

    /// The item is called something else now.
    package func noteMove(of item: ItemID, by party: Party) {
        submit(.moved(item, Move(), by: party, under: nil))
    }

    /// What was vacated like a document that is saved turned out to be deleted.
    package func noteLoss(of item: ItemID, by party: Party) { submit(.lost(item, at: Place(), by: party)) }
}

// What is sent to presenters.
extension Engine {
    /// Puts a message into its mailbox, under the lock: so messages keep the order of decisions.
    func post(
        _ content: PresenterMessage.Content, to presenter: PresenterID, _ turn: TurnID, _ cause: Cause,
        in state: State
    ) -> Mailbox? {
        guard let entry = state.presenters[presenter] else { return nil }
        entry.mailbox.put(
            PresenterMessage(
                presenter: presenter, turn: turn, content: content, cause: cause, document: entry.document))
        return entry.mailbox
    }
}

extension Cause {
    /// `save for cat (712)`: what the journal and the log say of a message.
    func describes(_ what: String) -> String {
        "\(what) for \(String(decoding: party.program, as: UTF8.self)) (\(party.process?.number ?? 0))"
    }
}
