// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

/// Checks what an open does next after its claim was granted: opens its file, looks up the name again, or makes a new claim.
@Suite("The next step of an open after its grant") struct OpenAdmissionTests {
    private static func admittance(
        _ basis: Grant.Basis, hasName: Bool, isSame: Bool, isChange: Bool = false
    ) -> OpenAdmission {
        OpenAdmission(basis: basis, hasName: hasName, isSameDocument: isSame, isChange: isChange)
    }

    @Test(
        "If the file is still the document after the grant, the open opens it", arguments: [true, false])
    func anOpenOpensItsFileIfTheFileIsStillTheDocumentAfterTheGrant(isChange: Bool) {
        for basis in [Grant.Basis.free, .waited, .proceeded] {
            #expect(Self.admittance(basis, hasName: true, isSame: true, isChange: isChange) == .open)
        }
    }

    /// There are two ways to save. If the document is renamed aside, the old file still has a name. If a new file is renamed
    /// over the document, the old file has no name.
    @Test(
        "If a save replaced or renamed the file during the open's wait, the open looks up the name a second time",
        arguments: [true, false])
    func aWaitingOpenLooksUpTheNameOfAReplacedFileASecondTime(isChange: Bool) {
        for basis in [Grant.Basis.waited, .proceeded] {
            for (hasName, isSame) in [(true, false), (false, false), (false, true)] {
                #expect(
                    Self.admittance(basis, hasName: hasName, isSame: isSame, isChange: isChange)
                        == .lookUpAgain
                )
            }
        }
    }

    @Test(
        "An open that did not wait makes a new claim if the document changed, and may read a file without a name"
    )
    func anOpenWithoutAWaitClaimsTheNewDocument() {
        #expect(Self.admittance(.free, hasName: true, isSame: false) == .claimAgain)
        #expect(Self.admittance(.free, hasName: true, isSame: false, isChange: true) == .claimAgain)
        #expect(Self.admittance(.free, hasName: false, isSame: true) == .open)
        #expect(Self.admittance(.free, hasName: false, isSame: true, isChange: true) == .lookUpAgain)
    }

    /// The open had found the old file, but its claim is for the new document. So programs may still write to the old file.
    @Test(
        "If the file was replaced before the open's claim, the open looks up the name a second time",
        arguments: [true, false])
    func theNameOfAFileReplacedBeforeTheClaimIsLookedUpASecondTime(isChange: Bool) {
        #expect(
            Self.admittance(.free, hasName: false, isSame: false, isChange: isChange) == .lookUpAgain)
    }
}
