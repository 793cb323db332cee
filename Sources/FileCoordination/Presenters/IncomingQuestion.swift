// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// One request to a presenter: it is delivered once, and answered once, maybe before that in its place.
final class IncomingQuestion: Sendable {
    let request: PresenterRequest
    let id: MessageID
    let connection: MountConnection
    /// As the daemon numbers it.
    let presenter: UInt64
    /// Whoever wants to read may do so though it was not saved: what would have been saved is saved later.
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

    /// Whether somebody waits for the answer.
    var isOpen: Bool { !isAnswered.withLock { $0 } && connection.isCurrent(generation) }

    /// On the presenter's queue.
    ///
    /// Also if it was answered in the presenter's place: then it relinquishes and saves later than others could wait for.
    /// But what was not deleted on its account, or whose deleter is gone, it need not close.
    func run() {
        if isOpen || !request.isDeletion { body(self) }
    }

    /// Whether the presenter says for the first time that it has relinquished.
    func markRelinquished() -> Bool {
        isRelinquished.withLock { isRelinquished in
            defer { isRelinquished = true }
            return !isRelinquished
        }
    }

    /// Says in the presenter's place that it cannot do this in time, because its queue waits for access itself.
    ///
    /// Whoever is about to write or delete must not take that for consent.
    func declineForBlockedQueue() {
        let why = "the presenter waits for access itself, and cannot answer before it has that"
        answer(mayAnswerLate ? nil : FileCoordinationError(.failed, why).asNSError)
    }

    /// Whether the connection on which it was asked is still there.
    var isConnected: Bool { connection.isCurrent(generation) }

    /// Only the first answer counts.
    func answer(_ error: (any Error)?) {
        let isFirst = isAnswered.withLock { isAnswered in
            defer { isAnswered = true }
            return !isAnswered
        }
        if isFirst { connection.answer(id, of: generation, error) }
    }
}

/// Which serial queues are blocked by a coordinated access that was begun on them and waits, and what cannot run there
/// for that long.
///
/// A presenter whose queue is blocked has nothing to let go of, since it waits for access itself: that it relinquishes is said
/// in its place, and it is told when its queue goes on. What it may have to save is another matter: the access is begun
/// anew as one without which that cannot be answered. Mostly it goes first then; and if the daemon says that everybody
/// waits for everybody, the presenter saves later instead.
final class BlockedQueueTable: Sendable {
    static let shared = BlockedQueueTable()

    private struct QueueEntry {
        var blockers: [AccessGroup] = []
        var questions: [IncomingQuestion] = []
    }

    private let entries = Mutex<[ObjectIdentifier: QueueEntry]>([:])

    /// Has a presenter asked on its queue.
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

    /// What waits on a queue cannot run until `body` returns, which waits for an access.
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

    /// Kept by what waits on the queue, which lets go of it if that is cancelled.
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
