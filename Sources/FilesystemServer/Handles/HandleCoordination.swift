// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The claim of a handle, and whether other programs wait for it.
///
///     claimed ──renewed──▶ reclaimed ──renewed──▶ reclaimed
///     uncoordinated ──the file became a document──▶ reclaimed
///         ╰──the file became a document, but no claim was granted──▶ bystander ──claimed late──▶ reclaimed
///     reclaimed ──the file became no document after all──▶ uncoordinated, or bystander as before
///
/// | transition | function |
/// |---|---|
/// | renewed | ``renew(as:)`` |
/// | claimed late | ``claimLate(_:)`` |
/// | to bystander | ``becomeBystander()`` |
/// | back | ``giveUpLateClaim()`` |
///
/// 1. A handle that was opened with a claim has one until it ends: it is never `uncoordinated` and never a `bystander`.
/// 2. A bystander stays one under a later claim: after that is given up, its writes count as before.
enum HandleCoordination: Sendable {
    /// Opened with a claim, which is in force.
    case claimed
    /// Opened without a claim, which its file did not need.
    case uncoordinated
    /// It writes to a document without a claim, because it could not get one when the file became a document.
    case bystander
    /// The claim made when the handle had given up its first one but wrote after all. Also made when the file, which
    /// needed no claim before, got the name of a document.
    case reclaimed(ClaimID, wasBystander: Bool)

    /// The claim that replaced the first one, or was made late.
    var laterClaim: ClaimID? {
        guard case .reclaimed(let claim, _) = self else { return nil }
        return claim
    }

    var isReclaimed: Bool { laterClaim != nil }

    /// Whether the arbiter knows of the handle.
    var hasClaim: Bool {
        switch self {
        case .claimed, .reclaimed: true
        case .uncoordinated, .bystander: false
        }
    }

    var isBystander: Bool { if case .bystander = self { true } else { false } }

    /// Another claim replaces the one in force.
    mutating func renew(as claim: ClaimID) { self = .reclaimed(claim, wasBystander: wasBystander) }

    /// The file became a document. Returns false if the handle has another later claim already.
    mutating func claimLate(_ claim: ClaimID) -> Bool {
        if let laterClaim { return laterClaim == claim }
        renew(as: claim)
        return true
    }

    /// The file did not become a document after all. Returns the claim to be ended.
    mutating func giveUpLateClaim() -> ClaimID? {
        guard case .reclaimed(let claim, let wasBystander) = self else { return nil }
        self = wasBystander ? .bystander : .uncoordinated
        return claim
    }

    /// The file became a document, but no claim was granted at once. Returns false if that happened before.
    mutating func becomeBystander() -> Bool {
        switch self {
        case .uncoordinated: self = .bystander
        case .reclaimed(let claim, wasBystander: false): self = .reclaimed(claim, wasBystander: true)
        case .claimed, .bystander, .reclaimed: return false
        }
        return true
    }

    private var wasBystander: Bool {
        switch self {
        case .bystander, .reclaimed(_, wasBystander: true): true
        case .claimed, .uncoordinated, .reclaimed: false
        }
    }
}

/// Whether the program of a handle locks the file itself. It only rises.
enum LockUse: Int, Comparable, Sendable {
    case none
    /// Its program has the name of one that was seen to lock the file, or opened it to read and write.
    case expected
    /// Its program was seen to lock the file by this handle.
    case observed

    static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    /// Returns whether the program was not expected to lock the file before.
    mutating func rise(to use: Self) -> Bool {
        defer { self = max(self, use) }
        return self == .none
    }
}
