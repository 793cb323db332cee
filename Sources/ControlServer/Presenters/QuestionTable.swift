// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Which request of ours asks which question of the engine's, on one connection.
struct QuestionTable {
    struct SentQuestion: Hashable {
        let id: QuestionID
        let presenter: PresenterID
        let deadline: Instant
    }

    private var asked: [Int64: SentQuestion] = [:]
    private var next: Int64 = 1
    /// How long after its deadline an answer is still understood: it shows that the presenter is back.
    private let lateAnswerGrace: TimeSpan

    init(lateAnswerGrace: TimeSpan) { self.lateAnswerGrace = lateAnswerGrace }

    var count: Int { asked.count }

    /// The id to ask under; nil if the client owes too many answers.
    mutating func ask(_ question: SentQuestion, at now: Instant) -> Int64? {
        if asked.count >= ProtocolLimits.questions {
            asked = asked.filter { now < $0.value.deadline + lateAnswerGrace }
        }
        guard asked.count < ProtocolLimits.questions else { return nil }
        defer { next += 1 }
        asked[next] = question
        return next
    }

    /// Nil if it was never asked, is answered, or was forgotten.
    func question(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked[number]
    }

    /// Whether it was asked at some time.
    func wasAsked(_ id: MessageID) -> Bool {
        guard case .number(let number) = id else { return false }
        return (1..<next).contains(number)
    }

    /// What an answer is to; no other answer to it counts.
    mutating func takeAnswered(_ id: MessageID) -> SentQuestion? {
        guard case .number(let number) = id else { return nil }
        return asked.removeValue(forKey: number)
    }

    mutating func forget(_ presenter: PresenterID) {
        asked = asked.filter { $0.value.presenter != presenter }
    }
}
