// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

enum Meeting: Hashable, Sendable { case item(ItemID), package(ItemID), contents(of: ItemID) }

extension Arbiter {
    func isHeard(of item: ItemID, at place: Place) -> Bool { isPresented(item) }
    func answerers(of question: QuestionID) -> [ClaimID] { [] }
    func lastWait(of claim: ClaimID) -> (obstacle: ClaimID?, questions: [Question])? { nil }
    func meeting(of waiting: ClaimID, with other: ClaimID) -> Meeting? { nil }
}
