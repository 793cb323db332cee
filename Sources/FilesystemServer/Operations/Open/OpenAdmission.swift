// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// What becomes of an open whose claim was granted before its thread had to wait.
package enum OpenAdmission: Hashable, Sendable {
    case open
    /// The file is another document now: the claim is about something nobody uses any more.
    case claimAgain
    /// The kernel is to look the name up again, as for an open that has waited.
    case lookUpAgain

    /// `hasName`: the file is called anything; `isSameDocument`: it is the document that was claimed; `isChange`: whoever opens
    /// it may write.
    package init(basis: Grant.Basis, hasName: Bool, isSameDocument: Bool, isChange: Bool) {
        switch (hasName, isSameDocument) {
        case (true, true): self = .open
        // It has waited all the same, so shortly that its thread did not see it: then presenters may have saved, and the
        // document be another file.
        case _ where basis != .free: self = .lookUpAgain
        case (true, false): self = .claimAgain
        // The claim was about the document, and waited for no writer of this file.
        case (false, false): self = .lookUpAgain
        // Reading what lost its name just now is what a moment earlier would have given.
        case (false, true): self = isChange ? .lookUpAgain : .open
        }
    }
}
