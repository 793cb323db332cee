// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Decides who may access which item now.
public struct Arbiter: Sendable {
    public init(bounds: Bounds) {}

    public mutating func handle(_ event: Event, at now: Instant, into effects: inout [Effect]) {}

    /// The oldest suspended write claim of somebody else on an item this claim writes: the contents this
    /// claim leaves must be kept before it ends.
    public func suspendedWriter(beside claim: ClaimID) -> ClaimID? { nil }
}
