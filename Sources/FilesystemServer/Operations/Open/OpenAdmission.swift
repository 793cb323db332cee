// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The outcome of an open if its claim was granted before its thread had to wait.
package enum OpenAdmission: Hashable, Sendable {
    case open
    /// The file is another document now, so its claim is about a document that the open does not use.
    case claimAgain
    /// The kernel is to look the name up again, as for an open that has waited.
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
        // The open waited too briefly for its thread to see it. Presenters may have saved meanwhile, and the document may be
        // another file.
        case _ where basis != .free: self = .lookUpAgain
        case (true, false): self = .claimAgain
        // The claim was about the document, and waited for no writer of this file.
        case (false, false): self = .lookUpAgain
        // A read of a file that lost its name just now gives the same result as an open a moment earlier.
        case (false, true): self = isChange ? .lookUpAgain : .open
        }
    }
}
