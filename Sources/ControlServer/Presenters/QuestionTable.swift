// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Maps the requests sent on one connection to the engine's questions.
struct QuestionTable {
    struct SentQuestion: Hashable {
        let id: QuestionID
        let presenter: PresenterID
        let deadline: Instant
    }

    private var asked: [Int64: SentQuestion] = [:]
    private var next: Int64 = 1
    /// How long after its deadline an answer is accepted; it shows that the presenter works again.
    private let lateAnswerGrace: TimeSpan

    init(lateAnswerGrace: TimeSpan) { self.lateAnswerGrace = lateAnswerGrace }

    var count: Int { asked.count }

    /// Returns the id of the request to send; nil if the client owes too many answers.
    mutating func ask(_ question: SentQuestion, at now: Instant) -> Int64? {
        if asked.count >= ProtocolLimits.questions {
            asked = asked.filter { now < $0.value.deadline + lateAnswerGrace }
        }
        guard asked.count < ProtocolLimits.questions else { return nil }
        defer { next += 1 }
        asked[next] = question
        return next
    }

    /// Nil if it was never sent, is answered, or was forgotten.
    func question(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked[number]
    }

    /// Whether a request with this id was ever sent.
    func wasAsked(_ id: MessageID) -> Bool {
        guard case .number(let number) = id else { return false }
        return (1..<next).contains(number)
    }

    /// Takes the question that an answer is for; a second answer finds none.
    mutating func takeAnswered(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked.removeValue(forKey: number)
    }

    mutating func forget(_ presenter: PresenterID) {
        asked = asked.filter { $0.value.presenter != presenter }
    }
}
