// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem

/// The steps of a request that creates, makes, links, removes or renames an item.
///
/// ``NameRequests/run(_:_:mayRetry:reply:resolve:)`` takes the steps in this order:
///
///     retry if stale ─▶ resolve ─▶ prepare ─▶ claim ─▶ preserve ─▶ begin ─▶ apply ─▶ publish ─▶ end the claim ─▶ answer ─▶ finish
///
/// The order matters:
/// 1. Contents are preserved before the step that would destroy them. The guarantee "Contents are preserved before they are
///    lost" requires this order.
/// 2. Events are sent and the claim is ended before the answer. So a request that follows the answer finds both done.
/// 3. If no program can reach the removed file any more, the answer comes before the end of the claim (D96).
/// 4. ``begin(_:_:)`` notes that names are being changed. Both ``revert(_:)`` and ``publish(_:of:_:)`` end that note.
protocol NameOperation: Sendable {
    associatedtype Facts: NameFacts
    /// The values that ``begin(_:_:)`` returns and that ``finish(_:_:)`` needs.
    associatedtype Scope
    associatedtype Outcome

    /// Whether the request makes a file. The request then runs with the identity of the requester, and destroys no
    /// contents.
    static var makesFile: Bool { get }

    /// Prepares the files of the request, which are now known.
    func prepare(_ facts: Facts)
    /// Returns the claim of the request; nil if the change concerns no other program. `former`: the same request before
    /// ESTALE.
    func lockRequest(for facts: Facts, after former: ClaimedRequest?) -> ClaimedRequest?
    func endangered(by facts: Facts, _ save: SaveAssessment?) -> EndangeredFiles
    func begin(_ facts: Facts, _ step: NameStep?) -> Scope
    /// Changes the names in the source.
    func apply(_ facts: Facts) throws(Errno) -> Outcome
    /// Undoes what ``prepare(_:)``, ``begin(_:_:)`` and ``apply(_:)`` have begun, because ``apply(_:)`` has failed.
    /// ``finish(_:_:)`` follows in any case.
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

/// The files and directories to which the names of a request lead. They are found once and used in all steps.
protocol NameFacts: Sendable {
    /// The name that is made, removed or renamed.
    var change: NameChange { get }
    /// The nodes that the kernel does not know.
    var visits: [RetainedNode] { get }
}

extension NameFacts {
    var visits: [RetainedNode] { [] }
}

/// A request with a granted claim.
struct NameStep: Sendable {
    let claim: ClaimID
    /// Whether the claim went ahead of another claim that has not ended.
    let isForced: Bool
    /// The save of which the request is a step; nil if there is none. It was assessed before the claim was made.
    let save: SaveAssessment?
}

/// The files with contents that a step may destroy.
struct EndangeredFiles: Sendable {
    /// The file that is removed or replaced.
    var replaced: Node?
    /// The files that are only renamed or exchanged. No contents are lost yet, because their writers still have them
    /// open.
    var aside: [Node] = []
}
