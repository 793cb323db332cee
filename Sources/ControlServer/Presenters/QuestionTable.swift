// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Finds the engine's question that belongs to a request id. The daemon sends each question to the client as a request with an
/// id.
struct QuestionTable {
    struct SentQuestion: Hashable {
        let id: QuestionID
        let presenter: PresenterID
        let deadline: Instant
    }

    private var asked: [Int64: SentQuestion] = [:]
    private var next: Int64 = 1
    /// How long after its deadline a question may still be answered. A late answer shows that the presenter works again.
    private let lateAnswerGrace: TimeSpan

    init(lateAnswerGrace: TimeSpan) { self.lateAnswerGrace = lateAnswerGrace }

    var count: Int { asked.count }

    /// Adds a question and returns the id of the request to send. Returns nil if the client has too many questions without an
    /// answer.
    mutating func ask(_ question: SentQuestion, at now: Instant) -> Int64? {
        if asked.count >= ProtocolLimits.questions {
            asked = asked.filter { now < $0.value.deadline + lateAnswerGrace }
        }
        guard asked.count < ProtocolLimits.questions else { return nil }
        defer { next += 1 }
        asked[next] = question
        return next
    }

    /// The question that was sent with this id. Nil if there was none, or if it was answered or forgotten.
    func question(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked[number]
    }

    /// Whether a question was ever sent with this id.
    func wasAsked(_ id: MessageID) -> Bool {
        guard case .number(let number) = id else { return false }
        return (1..<next).contains(number)
    }

    /// Removes and returns the question that an answer belongs to. For a second answer to the same question, returns nil.
    mutating func takeAnswered(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked.removeValue(forKey: number)
    }

    mutating func forget(_ presenter: PresenterID) {
        asked = asked.filter { $0.value.presenter != presenter }
    }
}
