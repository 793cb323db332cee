// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The next step of an open after its claim was granted without a wait. The file may have been renamed or removed at
/// the same time.
package enum OpenAdmission: Hashable, Sendable {
    case open
    /// The file now belongs to another document than the claim. So the open makes a new claim.
    case claimAgain
    /// The daemon answers ESTALE, and the kernel looks the name up a second time.
    case lookUpAgain

    /// Decides from the state of the file.
    ///
    /// - Parameters:
    ///   - basis: Why the claim was granted.
    ///   - hasName: Whether the file has a name.
    ///   - isSameDocument: Whether the file still belongs to the document for which the claim was made.
    ///   - isChange: Whether the opener may write.
    package init(basis: Grant.Basis, hasName: Bool, isSameDocument: Bool, isChange: Bool) {
        switch (hasName, isSameDocument) {
        case (true, true): self = .open
        // The claim has waited for a moment, although the open's thread has not. In this time a presenter may have
        // saved the document, so the name may have another file.
        case _ where basis != .free: self = .lookUpAgain
        case (true, false): self = .claimAgain
        // The claim was for another document, so it has not waited for the writers of this file.
        case (false, false): self = .lookUpAgain
        // The file has just lost its name. It may still be read, because an open a moment earlier would have got the
        // same file.
        case (false, true): self = isChange ? .lookUpAgain : .open
        }
    }
}
