// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

/// What becomes of an open whose claim was granted at once, as it seems.
@Suite struct OpenAdmissionTests {
    private static func admittance(
        _ basis: Grant.Basis, hasName: Bool, isSame: Bool, isChange: Bool = false
    ) -> OpenAdmission {
        OpenAdmission(basis: basis, hasName: hasName, isSameDocument: isSame, isChange: isChange)
    }

    @Test("A file that is still the document is opened, whatever was waited for", arguments: [true, false])
    func sameDocumentIsOpened(isChange: Bool) {
        for basis in [Grant.Basis.free, .waited, .proceeded] {
            #expect(Self.admittance(basis, hasName: true, isSame: true, isChange: isChange) == .open)
        }
    }

    /// A save that renames the document away leaves its file a name, one that renames another over it does not.
    @Test(
        "Who has waited unnoticed does not get the file that was saved over or away",
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
        "Who has waited for nobody claims the document that the file is now, and may read what has lost its name"
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
