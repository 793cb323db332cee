// SPDX-License-Identifier: Apache-2.0
import Testing
import VersionStore

@Suite("Rights to read a version")
struct RightsTests {
    private let owner = Credentials(user: 10, groups: [20])
    private let member = Credentials(user: 11, groups: [21, 20])
    private let stranger = Credentials(user: 12, groups: [22])
    private let root = Credentials(user: 0, groups: [0])

    private func rights(_ mode: UInt32, _ list: [UInt8]? = nil) -> FileRights {
        FileRights(user: 10, group: 20, mode: 0o100_000 | mode, accessControlList: list)
    }

    /// An access control list in the kernel's byte format. Each entry is (tag, permissions, number).
    private func list(version: UInt8 = 2, _ entries: [(UInt8, UInt8, UInt8)]) -> [UInt8] {
        entries.reduce(into: [version, 0, 0, 0]) { $0 += [$1.0, 0, $1.1, 0, $1.2, 0, 0, 0] }
    }

    @Test("without an access list, the mode for owner, group or others decides, whichever matches first")
    func theModeOfTheFirstMatchingClassDecidesWhoMayReadAVersion() {
        #expect(rights(0o400).mayRead(owner))
        #expect(!rights(0o044).mayRead(owner))
        #expect(rights(0o040).mayRead(member))
        #expect(!rights(0o404).mayRead(member))
        #expect(rights(0o004).mayRead(stranger))
        #expect(!rights(0o440).mayRead(stranger))
        #expect(!rights(0o333).mayRead(owner))
        #expect(rights(0o000).mayRead(root))
    }

    @Test("a named user in an access list may read if both the user's entry and the mask allow reading")
    func anAccessListsNamedUserIsBoundedByTheMask() {
        let open = list([(1, 6, 255), (2, 4, 12), (4, 0, 255), (0x10, 4, 255), (0x20, 0, 255)])
        #expect(rights(0o640, open).mayRead(stranger))
        #expect(!rights(0o640, open).mayRead(member))
        #expect(rights(0o640, open).mayRead(owner))
        let masked = list([(1, 6, 255), (2, 4, 12), (4, 4, 255), (0x10, 2, 255), (0x20, 4, 255)])
        #expect(!rights(0o640, masked).mayRead(stranger))
        #expect(!rights(0o640, masked).mayRead(member))
        #expect(rights(0o640, masked).mayRead(Credentials(user: 13, groups: [23])))
    }

    @Test(
        "one matching group in an access list is enough to read a version; the rights of others do not apply"
    )
    func oneMatchingGroupInAnAccessListIsEnoughToReadAVersion() {
        let list = list([
            (1, 6, 255), (4, 0, 255), (8, 4, 21), (8, 0, 22), (0x10, 7, 255), (0x20, 4, 255),
        ])
        #expect(rights(0o670, list).mayRead(member))
        #expect(!rights(0o670, list).mayRead(Credentials(user: 13, groups: [20])))
        #expect(!rights(0o670, list).mayRead(stranger))
        #expect(rights(0o670, list).mayRead(Credentials(user: 13, groups: [23])))
    }

    @Test("the entry of a named user in an access list decides before the entries of the user's groups")
    func aNamedUsersEntryDecidesBeforeGroupEntries() {
        let list = list([(1, 6, 255), (2, 0, 11), (4, 4, 255), (0x10, 7, 255), (0x20, 4, 255)])
        #expect(!rights(0o640, list).mayRead(member))
    }

    @Test("with an access list that cannot be parsed, only root may read")
    func withAnInvalidAccessListOnlyRootMayRead() {
        let whole: [(UInt8, UInt8, UInt8)] = [(1, 6, 255), (4, 4, 255), (0x20, 4, 255)]
        #expect(rights(0o644, list(whole)).mayRead(stranger))
        for bytes in [
            [], [2, 0, 0, 0], Array(list(whole).dropLast()), list(version: 3, whole),
            list(whole + [(0x40, 4, 0)]), list(whole + [(1, 6, 255)]), list(Array(whole.dropLast())),
        ] {
            #expect(!rights(0o644, bytes).mayRead(owner), "\(bytes)")
            #expect(rights(0o644, bytes).mayRead(root))
        }
    }

    @Test(
        "a version may be read if its stored rights and the document's present rights both allow reading"
    )
    func storedAndPresentRightsMustBothAllowReading() throws {
        let id = try #require(VersionID("0000000000000000"))
        func entry(_ mode: UInt32) -> VersionRecord {
            VersionRecord(
                id: id, path: [], cause: .claim, time: 0, rights: rights(mode), method: .copy, device: 0,
                inode: 0, size: 0)
        }
        #expect(entry(0o644).mayBeRead(by: stranger, now: rights(0o644)))
        #expect(!entry(0o600).mayBeRead(by: stranger, now: rights(0o644)))
        #expect(!entry(0o644).mayBeRead(by: stranger, now: rights(0o600)))
        #expect(entry(0o644).mayBeRead(by: stranger, now: nil))
        #expect(!entry(0o600).mayBeRead(by: stranger, now: nil))
        #expect(entry(0o600).mayBeRead(by: root, now: rights(0o600)))
    }
}
