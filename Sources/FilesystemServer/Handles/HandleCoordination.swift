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
/// 1. A handle that was opened with a claim has a claim until it ends: it is never `uncoordinated`, and never a `bystander`.
/// 2. A bystander that gets a later claim may give that claim up. It is a bystander again after that.
enum HandleCoordination: Sendable {
    /// The handle was opened with a claim, which it still has.
    case claimed
    /// The handle was opened without a claim, because its file needed none.
    case uncoordinated
    /// The handle may write to a document without a claim: when its file became a document, it could not get one.
    case bystander
    /// The handle has another claim than at its open. Either the handle had given up its first claim, and the program truncated
    /// the file after all. Or the handle had no claim, and its file got the name of a document.
    case reclaimed(ClaimID, wasBystander: Bool)

    /// The claim that replaced the first one, or that was made after the open; nil if the handle has no later claim.
    var laterClaim: ClaimID? {
        guard case .reclaimed(let claim, _) = self else { return nil }
        return claim
    }

    var isReclaimed: Bool { laterClaim != nil }

    /// Whether the arbiter knows the handle, because it has a claim.
    var hasClaim: Bool {
        switch self {
        case .claimed, .reclaimed: true
        case .uncoordinated, .bystander: false
        }
    }

    var isBystander: Bool { if case .bystander = self { true } else { false } }

    /// Replaces the handle's claim by another one.
    mutating func renew(as claim: ClaimID) { self = .reclaimed(claim, wasBystander: wasBystander) }

    /// Notes the claim that was made because the file became a document. Returns false if the handle has another later claim
    /// already.
    mutating func claimLate(_ claim: ClaimID) -> Bool {
        if let laterClaim { return laterClaim == claim }
        renew(as: claim)
        return true
    }

    /// Notes that the file did not become a document after all. Returns the claim that the caller must end, or nil.
    mutating func giveUpLateClaim() -> ClaimID? {
        guard case .reclaimed(let claim, let wasBystander) = self else { return nil }
        self = wasBystander ? .bystander : .uncoordinated
        return claim
    }

    /// Notes that the file became a document, but no claim was granted without a wait. Returns false if this was noted before.
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

/// Whether the program of a handle locks the file itself. The value only rises.
enum LockUse: Int, Comparable, Sendable {
    case none
    /// The program has the name of a program that was seen to lock the file, or it opened the file to read and write.
    case expected
    /// The program was seen to lock the file by this handle.
    case observed

    static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    /// Raises the value. Returns true if the program was neither seen nor expected to lock the file before.
    mutating func rise(to use: Self) -> Bool {
        defer { self = max(self, use) }
        return self == .none
    }
}
