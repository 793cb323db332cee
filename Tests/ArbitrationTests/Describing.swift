// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// An effect as scenario files spell it.
func describe(_ effect: Effect) -> String {
    switch effect {
    case .grant(let claim, let grant):
        let passed = grant.passed.map { $0.isClean ? "\($0.claim) (clean)" : "\($0.claim)" }
        let over = passed.isEmpty ? "" : " over " + passed.joined(separator: ", ")
        return "grant \(claim) \(grant.basis.rawValue)\(over)"
    case .refuse(let claim, let refusal): return "refuse \(claim) \(refusal.rawValue)"
    case .identify(let claim): return "identify \(claim)"
    case .observe(let claim): return "observe \(claim)"
    case .suspend(let claim, let suspension): return "suspend \(claim) \(suspension.rawValue)"
    case .wake(let moment): return "wake at \(moment)"
    }
}
