// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// One request to a presenter.
public struct Question: Hashable, Sendable {
    public let id: QuestionID
    public let presenter: PresenterID
    public let turn: TurnID
    public let request: PresenterRequest
    public let cause: Cause
    public let asked: Instant
    /// Moves with the presenter's progress.
    public internal(set) var deadline: Instant
}
