// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

/// The next step of an open after its claim was granted, at once as it seems.
@Suite("The next step of an open after its grant") struct OpenAdmissionTests {
    private static func admittance(
        _ basis: Grant.Basis, hasName: Bool, isSame: Bool, isChange: Bool = false
    ) -> OpenAdmission {
        OpenAdmission(basis: basis, hasName: hasName, isSameDocument: isSame, isChange: isChange)
    }

    @Test(
        "If the file is still the document after the grant, the open opens it", arguments: [true, false])
    func aFileThatIsStillTheDocumentIsOpened(isChange: Bool) {
        for basis in [Grant.Basis.free, .waited, .proceeded] {
            #expect(Self.admittance(basis, hasName: true, isSame: true, isChange: isChange) == .open)
        }
    }

    /// A save that renames the document aside leaves its file a name; a rename over the document does not.
    @Test(
        "If a save replaced or renamed the file during the open's wait, the open looks up the name again",
        arguments: [true, false])
    func aWaitingOpenLooksUpAReplacedFileAgain(isChange: Bool) {
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

    /// Its claim was about the document: programs may be writing to the file that it has found.
    @Test(
        "If the file was replaced before the open's claim, the open looks up the name again",
        arguments: [true, false])
    func aFileReplacedBeforeTheClaimIsLookedUpAgain(isChange: Bool) {
        #expect(
            Self.admittance(.free, hasName: false, isSame: false, isChange: isChange) == .lookUpAgain)
    }
}
