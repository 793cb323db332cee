// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// An effect as scenario files spell it.
func describe(_ effect: Effect) -> String {
    switch effect {
    case .grant(let claim, let grant):
        let passed = grant.passed.map { $0.isClean ? "\($0.claim) (clean)" : "\($0.claim)" }
        let over = passed.isEmpty ? "" : " over " + passed.joined(separator: ", ")
        let silent = grant.unanswered.map(\.description).joined(separator: ", ")
        return "grant \(claim) \(grant.basis.rawValue)\(over)"
            + (silent.isEmpty ? "" : " unanswered by \(silent)")
    case .refuse(let claim, let refusal): return "refuse \(claim) \(refusal.rawValue)"
    case .identify(let claim): return "identify \(claim)"
    case .observe(let claim): return "observe \(claim)"
    case .suspend(let claim, let suspension): return "suspend \(claim) \(suspension.rawValue)"
    case .wake(let moment): return "wake at \(moment)"
    case .ask(let question):
        return "ask \(question.id) \(question.presenter) \(question.request.rawValue) in \(question.turn) "
            + "for \(name(of: question.cause)) by \(question.deadline)"
    case .forfeit(let question, let isDemoted):
        return "forfeit \(question.id) \(question.presenter) \(question.request.rawValue)"
            + (isDemoted ? " demoted" : "")
    case .tell(let presenter, let turn, let notice, let cause):
        return "tell \(presenter) \(notice.rawValue) in \(turn) for \(name(of: cause))"
    }
}

private func name(of cause: Cause) -> String { cause.party.process.map { "\($0)" } ?? "nobody" }
