// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem

/// The steps of a request that changes names: create, make, link, remove or rename. ``NameRequests/run(_:_:mayRetry:reply:resolve:)``
/// takes them in this order:
///
///     retry if stale ─▶ resolve ─▶ prepare ─▶ claim ─▶ preserve ─▶ begin ─▶ apply ─▶ publish ─▶ end the claim ─▶ answer ─▶ finish
///
/// The order carries meaning:
/// 1. Contents are preserved before the step that would lose them (D86).
/// 2. Events are sent and the claim is ended before the answer. A request that follows the answer finds both done.
/// 3. Where no program can reach the removed file, the answer comes before the end of the claim (D96).
/// 4. What ``begin(_:_:)`` notes as under way, both ``revert(_:)`` and ``publish(_:of:_:)`` end.
protocol NameOperation: Sendable {
    associatedtype Facts: NameFacts
    /// What ``begin(_:_:)`` has begun, and ``finish(_:_:)`` ends.
    associatedtype Scope
    associatedtype Outcome

    /// Whether the step makes a file: it is taken with the identity of the requester, and endangers no contents.
    static var makesFile: Bool { get }

    /// The files are known and about to be used.
    func prepare(_ facts: Facts)
    /// The request for the claim; nil if the change concerns no other program. `former` is the same request before ESTALE.
    func lockRequest(for facts: Facts, after former: ClaimedRequest?) -> ClaimedRequest?
    func endangered(by facts: Facts, _ save: SaveAssessment?) -> EndangeredFiles
    func begin(_ facts: Facts, _ step: NameStep?) -> Scope
    /// Changes the names in the source.
    func apply(_ facts: Facts) throws(Errno) -> Outcome
    /// Undoes what was begun for ``apply(_:)``, which has failed.
    func revert(_ facts: Facts)
    /// Updates nodes, documents and pending saves, and sends the events.
    func publish(_ outcome: inout Outcome, of facts: Facts, _ step: NameStep?)
    func endsClaimBeforeAnswer(_ facts: Facts) -> Bool
    func answer(_ outcome: Outcome, of facts: Facts, _ step: NameStep?, reply: consuming Reply)
    func fail(_ reply: consuming Reply, _ error: Errno)
    func finish(_ scope: Scope, _ facts: Facts)
}

extension NameOperation {
    static var makesFile: Bool { false }
    func prepare(_ facts: Facts) {}
    func endangered(by facts: Facts, _ save: SaveAssessment?) -> EndangeredFiles { EndangeredFiles() }
    func revert(_ facts: Facts) {}
    func endsClaimBeforeAnswer(_ facts: Facts) -> Bool { true }
    func fail(_ reply: consuming Reply, _ error: Errno) { reply.fail(error) }
}

/// What the names of a request lead to: read once, and carried through all steps.
protocol NameFacts: Sendable {
    /// The name that is made, removed, or renamed.
    var change: NameChange { get }
    /// Nodes that the kernel does not know.
    var visits: [RetainedNode] { get }
}

extension NameFacts {
    var visits: [RetainedNode] { [] }
}

/// A granted step.
struct NameStep: Sendable {
    let claim: ClaimID
    /// Whether the claim was granted over another.
    let isForced: Bool
    /// The save of which the request is a step, assessed before the claim.
    let save: SaveAssessment?
}

/// The files with contents that a step would lose.
struct EndangeredFiles: Sendable {
    /// A file that is removed or replaced.
    var replaced: Node?
    /// Files that are only put aside. They lose nothing yet, since their writers go on with them.
    var aside: [Node] = []
}
