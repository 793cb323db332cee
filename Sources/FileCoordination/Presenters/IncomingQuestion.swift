// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// One question of the daemon to a presenter. It is delivered once and answered once. The library can answer it before the
/// delivery.
final class IncomingQuestion: Sendable {
    let request: PresenterRequest
    let id: MessageID
    let connection: MountConnection
    /// The number that the daemon gave the presenter.
    let presenter: UInt64
    /// Whether the question is to save for a reader. If the answer comes before the save, the reader continues, and the
    /// presenter saves later.
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

    /// Whether the question is still unanswered and its connection is still open.
    var isOpen: Bool { !isAnswered.withLock { $0 } && connection.isCurrent(generation) }

    /// Delivers the question to the presenter. This runs on the presenter's queue.
    ///
    /// If the library has already answered for the presenter, a question to relinquish or save is still delivered. The
    /// presenter then relinquishes or saves late. A question about a deletion is not delivered in this case.
    func run() {
        if isOpen || !request.isDeletion { body(self) }
    }

    /// Returns true at the first report that the presenter has relinquished the item, and false at later reports.
    func markRelinquished() -> Bool {
        isRelinquished.withLock { isRelinquished in
            defer { isRelinquished = true }
            return !isRelinquished
        }
    }

    /// Answers for a presenter that cannot answer in time, because its queue waits for an access itself.
    ///
    /// If a reader waits for a save, the answer is consent. To other questions the answer is an error, because a writer must
    /// not continue as if the presenter had agreed.
    func declineForBlockedQueue() {
        let why = "the presenter waits for access itself, and cannot answer before it has that"
        answer(mayAnswerLate ? nil : FileCoordinationError(.failed, why).asNSError)
    }

    /// Whether the connection on which the question arrived still exists.
    var isConnected: Bool { connection.isCurrent(generation) }

    /// Answers the question. Only the first answer is sent to the daemon.
    func answer(_ error: (any Error)?) {
        let isFirst = isAnswered.withLock { isAnswered in
            defer { isAnswered = true }
            return !isAnswered
        }
        if isFirst { connection.answer(id, of: generation, error) }
    }
}

/// The serial queues that are blocked by a waiting coordinated access, and the questions that cannot run on these queues.
///
/// The library relinquishes the item for a presenter with a blocked queue. This is safe, because the presenter does not use its
/// item while its queue is blocked. The presenter gets the question when its queue continues.
///
/// The library cannot save for the presenter. If the question is to save, the library requests the access again, and the
/// request contains the number of the question. In most cases the daemon then grants this access before the question is
/// answered. If the daemon reports a deadlock, the presenter saves later.
final class BlockedQueueTable: Sendable {
    static let shared = BlockedQueueTable()

    private struct QueueEntry {
        var blockers: [AccessGroup] = []
        var questions: [IncomingQuestion] = []
    }

    private let entries = Mutex<[ObjectIdentifier: QueueEntry]>([:])

    /// Puts a question on a presenter's queue. If the queue is blocked, the library also answers for the presenter where that
    /// is safe.
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

    /// Runs `body`, which waits for an access. While `body` runs, the serial queue counts as blocked by that access.
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

    /// Removes a question from the table when its operation on the queue runs. If the operation is cancelled, the release of
    /// this object removes the question.
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
