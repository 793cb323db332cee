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
/// 1. A handle that was opened with a claim has a claim until the handle ends: it is never `uncoordinated` or a `bystander`.
/// 2. A bystander that gets a later claim may give that claim up. Then it is a bystander again.
enum HandleCoordination: Sendable {
    /// The handle was opened with a claim, which it still has.
    case claimed
    /// The handle was opened without a claim, because its file needed none.
    case uncoordinated
    /// The handle may write to a document without a claim. When its file became a document, the handle could not get a claim.
    case bystander
    /// The handle has another claim than the claim of its open. Either the handle had given up its first claim, and the program
    /// then truncated the file. Or the handle had no claim, and its file got the name of a document.
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

    /// Notes the claim that was made because the file became a document. Returns false if the handle already has another later
    /// claim.
    mutating func claimLate(_ claim: ClaimID) -> Bool {
        if let laterClaim { return laterClaim == claim }
        renew(as: claim)
        return true
    }

    /// Notes that the file did not become a document. Returns the later claim, which the caller must end, or nil.
    mutating func giveUpLateClaim() -> ClaimID? {
        guard case .reclaimed(let claim, let wasBystander) = self else { return nil }
        self = wasBystander ? .bystander : .uncoordinated
        return claim
    }

    /// Notes that the handle got no claim although the file became a document. Returns false if this was already noted.
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

/// Whether the program of a handle locks the file itself. The value never changes to a lower one.
enum LockUse: Int, Comparable, Sendable {
    case none
    /// Another program with the same name has locked the file, or the program opened the file to read and write.
    case expected
    /// The program has locked the file by this handle.
    case observed

    static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    /// Raises the value to `use`. Returns true if the value was `none` before.
    mutating func rise(to use: Self) -> Bool {
        defer { self = max(self, use) }
        return self == .none
    }
}
