// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The next step of an open with a claim that was granted before the open's thread had to wait.
package enum OpenAdmission: Hashable, Sendable {
    case open
    /// The file is another document now. The claim was for a document that the open does not use, so the open makes a new
    /// claim.
    case claimAgain
    /// The answer is ESTALE, so that the kernel looks the name up again, as after an open that has waited.
    case lookUpAgain

    /// Decides from the state of the file.
    ///
    /// - Parameters:
    ///   - basis: Why the claim was granted.
    ///   - hasName: Whether the file has a name.
    ///   - isSameDocument: Whether it is the document that was claimed.
    ///   - isChange: Whether the opener may write.
    package init(basis: Grant.Basis, hasName: Bool, isSameDocument: Bool, isChange: Bool) {
        switch (hasName, isSameDocument) {
        case (true, true): self = .open
        // The open has waited, although its thread did not notice. Presenters may have saved meanwhile, so the document
        // may have another file.
        case _ where basis != .free: self = .lookUpAgain
        case (true, false): self = .claimAgain
        // The claim was for the document, so it has not waited for writers of this file.
        case (false, false): self = .lookUpAgain
        // A file that has just lost its name may be read: the result is that of an open a moment earlier.
        case (false, true): self = isChange ? .lookUpAgain : .open
        }
    }
}
