// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import Coordination
import Testing

/// What becomes of an open whose claim was granted at once, as it seems.
@Suite struct AdmittanceTests {
    private static func admittance(
        _ basis: Grant.Basis, hasName: Bool, isSame: Bool, isChange: Bool = false
    ) -> Admittance {
        Admittance(basis: basis, hasName: hasName, isSameDocument: isSame, isChange: isChange)
    }

    @Test("A file that is still the document is opened, whatever was waited for", arguments: [true, false])
    func unchanged(isChange: Bool) {
        for basis in [Grant.Basis.free, .waited, .proceeded] {
            #expect(Self.admittance(basis, hasName: true, isSame: true, isChange: isChange) == .open)
        }
    }

    /// A save that renames the document away leaves its file a name, one that renames another over it does not.
    @Test(
        "Who has waited unnoticed does not get the file that was saved over or away",
        arguments: [true, false])
    func saved(isChange: Bool) {
        for basis in [Grant.Basis.waited, .proceeded] {
            for (hasName, isSame) in [(true, false), (false, false), (false, true)] {
                #expect(
                    Self.admittance(basis, hasName: hasName, isSame: isSame, isChange: isChange) == .lookAgain
                )
            }
        }
    }

    @Test(
        "Who has waited for nobody claims the document that the file is now, and may read what has lost its name"
    )
    func free() {
        #expect(Self.admittance(.free, hasName: true, isSame: false) == .claimAgain)
        #expect(Self.admittance(.free, hasName: true, isSame: false, isChange: true) == .claimAgain)
        #expect(Self.admittance(.free, hasName: false, isSame: true) == .open)
        #expect(Self.admittance(.free, hasName: false, isSame: true, isChange: true) == .lookAgain)
    }

    /// Its claim was about the document: programs may be writing to the file that it has found.
    @Test(
        "A file that was replaced before the claim is not read beside its writers", arguments: [true, false])
    func replaced(isChange: Bool) {
        #expect(
            Self.admittance(.free, hasName: false, isSame: false, isChange: isChange) == .lookAgain)
    }
}
