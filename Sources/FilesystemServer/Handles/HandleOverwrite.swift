// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Whether it is known what the program of a handle has read, before it writes (D226).
///
///     due ──the open is reviewed──▶ reviewed
///      └──it may read and write──▶ awaitingFirstAccess ──it reads, or its first write is prepared──▶ reviewed
enum OverwriteReview: UInt8, AtomicRepresentable, Sendable {
    case due
    /// The program has read the contents, or they are preserved, or no other program is concerned.
    case reviewed
    /// The program has not read the present contents. If the first request of the handle is a read, it has read them.
    case awaitingFirstAccess
}

extension Handle {
    var overwrite: OverwriteReview { overwriteReview.load(ordering: .relaxed) }
    func setOverwrite(_ review: OverwriteReview) { overwriteReview.store(review, ordering: .relaxed) }
    /// Whether the daemon must see the requests of this handle, because it does not know yet whether the program reads first.
    var awaitsFirstAccess: Bool { overwrite == .awaitingFirstAccess }
}
