// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization
import Testing
import VersionStore

@Suite("IDs of versions")
struct VersionIDTests {
    @Test("a version's ID is sixteen lowercase hexadecimal digits and nothing else")
    func anIDIsSixteenHexadecimalDigits() {
        #expect(VersionID("0192f3c4a1b20001")?.description == "0192f3c4a1b20001")
        #expect(VersionID("0000000000000000")?.description == "0000000000000000")
        for text in [
            "", "0192f3c4a1b2000", "0192f3c4a1b200011", "0192F3C4A1B20001", "../../etc/passwd",
            "0192f3c4a1b2/001", "+192f3c4a1b20001", "0192f3c4a1b2000\0", "0192f3c4a1b2000g",
        ] {
            #expect(VersionID(text) == nil, "\(text)")
        }
    }

    @Test("versions' IDs grow even if the clock is set back, also after the store is opened again")
    func idsGrowWhenTheClockIsSetBack() throws {
        let sandbox = try Sandbox()
        try sandbox.write("old", to: "a")
        func keep(at seconds: Int64) throws -> VersionID {
            try sandbox.store(clock: { seconds * 1_000_000_000 })
                .preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        }
        let ids = [try keep(at: 100), try keep(at: 50), try keep(at: 100), try keep(at: 101)]
        #expect(ids == ids.sorted() && Set(ids).count == 4)
    }

    @Test("the ID of a dropped version is not used again")
    func aDroppedVersionsIDIsNotReused() throws {
        let sandbox = try Sandbox()
        try sandbox.write("old", to: "a")
        func keep(_ store: VersionStore) throws -> VersionID {
            try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        }
        let first = try sandbox.store(clock: { 1_000_000_000 })
        let id = try keep(first)
        try first.drop(id, reason: "unchanged")
        #expect(try keep(first) > id)
    }
}
