// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

/// The next step of an open after its claim was granted, at once as it seems.
@Suite struct OpenAdmissionTests {
    private static func admittance(
        _ basis: Grant.Basis, hasName: Bool, isSame: Bool, isChange: Bool = false
    ) -> OpenAdmission {
        OpenAdmission(basis: basis, hasName: hasName, isSameDocument: isSame, isChange: isChange)
    }

    @Test(
        "A file that is still the document is opened, whatever the open waited for", arguments: [true, false])
    func sameDocumentIsOpened(isChange: Bool) {
        for basis in [Grant.Basis.free, .waited, .proceeded] {
            #expect(Self.admittance(basis, hasName: true, isSame: true, isChange: isChange) == .open)
        }
    }

    /// A save that renames the document aside leaves its file a name; a rename over the document does not.
    @Test(
        "An open that waited unnoticed does not get a file that a save replaced or moved aside",
        arguments: [true, false])
    func openAfterSaveLooksUpAgain(isChange: Bool) {
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
        "An open without a wait claims the file's present document, and may read a file without a name"
    )
    func freeGrantReclaimsOrOpens() {
        #expect(Self.admittance(.free, hasName: true, isSame: false) == .claimAgain)
        #expect(Self.admittance(.free, hasName: true, isSame: false, isChange: true) == .claimAgain)
        #expect(Self.admittance(.free, hasName: false, isSame: true) == .open)
        #expect(Self.admittance(.free, hasName: false, isSame: true, isChange: true) == .lookUpAgain)
    }

    /// Its claim was about the document: programs may be writing to the file that it has found.
    @Test(
        "A file that was replaced before the claim is not read beside its writers", arguments: [true, false])
    func replacedFileIsNotReadBesideWriters(isChange: Bool) {
        #expect(
            Self.admittance(.free, hasName: false, isSame: false, isChange: isChange) == .lookUpAgain)
    }
}
