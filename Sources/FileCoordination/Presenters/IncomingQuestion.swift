// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// One question to a presenter. It is delivered once and answered once, possibly by the library before its delivery.
final class IncomingQuestion: Sendable {
    let request: PresenterRequest
    let id: MessageID
    let connection: MountConnection
    /// The number that the daemon gave it.
    let presenter: UInt64
    /// True if a reader may continue without the save; the presenter saves later.
    private let mayAnswerLate: Bool
    private let generation: UInt64
    private let body: @Sendable (IncomingQuestion) -> Void
    private let isAnswered = Mutex(false)
    private let isRelinquished = Mutex(false)

    init(
        _ request: PresenterRequest, _ id: MessageID, of presenter: UInt64, mayAnswerLate: Bool,
        on connection: MountConnection, _ body: @escaping @Sendable (IncomingQuestion) -> Void
    ) {
        self.request = request
        self.id = id
        self.connection = connection
        self.presenter = presenter
        self.mayAnswerLate = mayAnswerLate
        generation = connection.generation
        self.body = body
    }

    /// Whether the daemon still waits for the answer.
    var isOpen: Bool { !isAnswered.withLock { $0 } && connection.isCurrent(generation) }

    /// Delivers the question on the presenter's queue.
    ///
    /// A question that was answered in the presenter's place is delivered, too: the presenter then relinquishes or
    /// saves late. But an answered deletion is not delivered, since the item need not be closed.
    func run() {
        if isOpen || !request.isDeletion { body(self) }
    }

    /// True at the presenter's first report that it has relinquished.
    func markRelinquished() -> Bool {
        isRelinquished.withLock { isRelinquished in
            defer { isRelinquished = true }
            return !isRelinquished
        }
    }

    /// Answers for a presenter that cannot answer in time, because its queue waits for an access itself.
    ///
    /// A writer or deleter must not take that for consent, so it receives an error.
    func declineForBlockedQueue() {
        let why = "the presenter waits for access itself, and cannot answer before it has that"
        answer(mayAnswerLate ? nil : FileCoordinationError(.failed, why).asNSError)
    }

    /// Whether the connection on which the question arrived still exists.
    var isConnected: Bool { connection.isCurrent(generation) }

    /// Answers the question; only the first answer counts.
    func answer(_ error: (any Error)?) {
        let isFirst = isAnswered.withLock { isAnswered in
            defer { isAnswered = true }
            return !isAnswered
        }
        if isFirst { connection.answer(id, of: generation, error) }
    }
}

/// Serial queues that are blocked by a waiting coordinated access, with the questions that cannot run on them.
///
/// A presenter with a blocked queue does not use the item, since it waits for an access itself. So the library answers
/// that it relinquishes. The presenter is notified when its queue continues. A save needs its queue, so the access is
/// begun again and names the question that waits for it. Mostly the daemon then grants that access first. If the daemon
/// reports a deadlock, the presenter saves later instead.
final class BlockedQueueTable: Sendable {
    static let shared = BlockedQueueTable()

    private struct QueueEntry {
        var blockers: [AccessGroup] = []
        var questions: [IncomingQuestion] = []
    }

    private let entries = Mutex<[ObjectIdentifier: QueueEntry]>([:])

    /// Delivers a question on a presenter's queue.
    func enqueue(_ question: IncomingQuestion, on queue: OperationQueue) {
        let key = ObjectIdentifier(queue)
        let blocker = entries.withLock { entries in
            entries[key, default: QueueEntry()].questions.append(question)
            return entries[key]?.blockers.last
        }
        let token = QueuedQuestionToken(of: question, on: key)
        queue.addOperation {
            token.giveUp()
            question.run()
        }
        if let blocker { Self.resolveBlocked(question, blocker) }
    }

    /// Records that a serial queue is blocked while `body` waits for an access.
    func blocking<Value>(_ queue: OperationQueue?, by access: AccessGroup, _ body: () -> Value) -> Value {
        guard let queue, queue.maxConcurrentOperationCount == 1 else { return body() }
        let key = ObjectIdentifier(queue)
        let questions = entries.withLock { entries in
            entries[key, default: QueueEntry()].blockers.append(access)
            return entries[key]?.questions ?? []
        }
        for question in questions { Self.resolveBlocked(question, access) }
        defer {
            entries.withLock { entries in
                entries[key]?.blockers.removeAll { $0 === access }
                Self.tidy(&entries, key)
            }
        }
        return body()
    }

    /// Held by the operation on the queue, and released if that operation is cancelled.
    private final class QueuedQuestionToken: Sendable {
        private let question: IncomingQuestion
        private let key: ObjectIdentifier

        init(of question: IncomingQuestion, on key: ObjectIdentifier) {
            self.question = question
            self.key = key
        }

        func giveUp() { BlockedQueueTable.shared.forget(question, on: key) }

        deinit { giveUp() }
    }

    private func forget(_ question: IncomingQuestion, on key: ObjectIdentifier) {
        entries.withLock { entries in
            entries[key]?.questions.removeAll { $0 === question }
            Self.tidy(&entries, key)
        }
    }

    private static func tidy(_ entries: inout [ObjectIdentifier: QueueEntry], _ key: ObjectIdentifier) {
        if let entry = entries[key], entry.blockers.isEmpty, entry.questions.isEmpty { entries[key] = nil }
    }

    private static func resolveBlocked(_ question: IncomingQuestion, _ access: AccessGroup) {
        if question.request.isRelinquishment { question.answer(nil) } else { access.deferUntilEnd(question) }
    }
}
