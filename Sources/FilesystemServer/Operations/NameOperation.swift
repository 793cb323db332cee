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
    /// The type of the value that ``begin(_:_:)`` returns and ``finish(_:_:)`` receives.
    associatedtype Scope
    associatedtype Outcome

    /// Whether the request makes a file. Such a request runs as the requester's user and group, and destroys no
    /// contents.
    static var makesFile: Bool { get }

    /// Prepares the files of the request, after the daemon has found them.
    func prepare(_ facts: Facts)
    /// Returns the claim that the request needs. Returns nil if the change of names concerns no other program.
    ///
    /// `former`: if this is a retry, the request that was answered ESTALE.
    func lockRequest(for facts: Facts, after former: ClaimedRequest?) -> ClaimedRequest?
    func endangered(by facts: Facts, _ save: SaveAssessment?) -> EndangeredFiles
    /// Returns what the request does to a document that it replaces or takes the name from.
    func documentStep(_ facts: Facts) -> DocumentStep?
    func begin(_ facts: Facts, _ step: NameStep?) -> Scope
    /// Changes the names in the source.
    func apply(_ facts: Facts) throws(Errno) -> Outcome
    /// Undoes the work of ``prepare(_:)``, ``begin(_:_:)`` and ``apply(_:)``, because ``apply(_:)`` has failed.
    /// ``finish(_:_:)`` is called after this as well.
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
    func documentStep(_ facts: Facts) -> DocumentStep? { nil }
    func revert(_ facts: Facts) {}
    func endsClaimBeforeAnswer(_ facts: Facts) -> Bool { true }
    func fail(_ reply: consuming Reply, _ error: Errno) { reply.fail(error) }
}

/// The files and directories that a request's names lead to. They are found once and used in all steps.
protocol NameFacts: Sendable {
    /// The name that the request makes, removes or renames.
    var change: NameChange { get }
    /// The files of the request that the kernel does not know.
    var visits: [RetainedNode] { get }
}

extension NameFacts {
    var visits: [RetainedNode] { [] }
}

/// The claim of a request that was granted, and the data that belong to it.
struct NameStep: Sendable {
    let claim: ClaimID
    /// Whether the claim went ahead of another claim that has not ended.
    let isForced: Bool
    /// The save of which this request is a step. It was assessed before the claim was made. Nil if the request belongs
    /// to no save.
    let save: SaveAssessment?
    /// The step on a document that concerns other programs; nil if there is none.
    private(set) var reviewed: ReviewedStep?
    /// While the step is under way, its document is not merged.
    private(set) var passage: MergePassage?

    init(claim: ClaimID, isForced: Bool, save: SaveAssessment?) {
        (self.claim, self.isForced, self.save) = (claim, isForced, save)
    }

    func reviewed(as reviewed: ReviewedStep?, in passage: MergePassage?) -> NameStep {
        var step = self
        (step.reviewed, step.passage) = (reviewed, passage)
        return step
    }
}

/// The files of a request, as far as the request may destroy their contents.
struct EndangeredFiles: Sendable {
    /// The file that the request removes or replaces.
    var replaced: Node?
    /// The files that the request only renames or exchanges. Their contents stay, but programs that have these files
    /// open may still write to them.
    var aside: [Node] = []
    /// A document that gets the name of a backup or helper file. The program may remove it later under this name.
    var leaving: Node?
}
