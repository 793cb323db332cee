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

extension Engine {
    /// Registers a presenter; its messages go to the mailbox from now on.
    ///
    /// The document is released when the presenter is removed.
    package func present(
        _ document: any TrackedDocument, by party: Party, implementing messages: PresenterMessages,
        in mailbox: Mailbox
    ) -> PresenterID {
        preconditionFailure("to come")
    }

    /// Removes a presenter: what it owes counts as consent, and nothing is sent to it any more.
    package func remove(_ presenter: PresenterID) { preconditionFailure("to come") }

    /// A presenter answered; an answer that is late or to nothing is harmless.
    package func answer(_ question: QuestionID, of presenter: PresenterID, _ answer: Answer) {
        preconditionFailure("to come")
    }

    /// A presenter is at work and asks for more time.
    package func progress(_ question: QuestionID, of presenter: PresenterID) {
        preconditionFailure("to come")
    }

    /// Whether anybody presents or claims anything over the socket: what the fast paths ask.
    package var isAttended: Bool { preconditionFailure("to come") }

    /// Who has, wants and shows what: of one item, or of all.
    package func census(of item: ItemID?) -> Census { preconditionFailure("to come") }
}
