// SPDX-License-Identifier: Apache-2.0
import Testing
import VersionStore

@Suite("Records of merges that are being written")
struct MergeRecordTests {
    private static let record = MergeRecord(
        path: bytes("folder/a\nb"), device: 7, inode: 4711, former: bytes("one\ntwo\nthree\n"),
        text: bytes("one\nthree\n"),
        versions: [VersionID("0000000000000011"), VersionID("ffffffffffffffff")].compactMap(\.self))

    @Test("A record outlives the daemon until the merge has ended")
    func recordsOutliveTheDaemon() throws {
        let sandbox = try Sandbox()
        do {
            let store = try sandbox.store()
            #expect(store.interruptedMerges.isEmpty)
            try store.begin(Self.record)
            // A second merge of the same file begins after the first one.
            try store.begin(Self.record)
        }
        do {
            let store = try sandbox.store()
            #expect(store.interruptedMerges == [Self.record])
            store.end(Self.record)
            #expect(store.interruptedMerges.isEmpty)
        }
        #expect(sandbox.log == [])
    }

    @Test("An incomplete record is removed: the merge had not begun", arguments: [0, 1, 13, 14, 40, 70])
    func incompleteRecordsAreRemoved(length: Int) throws {
        let sandbox = try Sandbox()
        try sandbox.store().begin(Self.record)
        let name = ".truce/store/merging-7-4711"
        try sandbox.write(String(try sandbox.text(of: name).prefix(length)), to: name)
        #expect(try sandbox.store().interruptedMerges.isEmpty)
        #expect(!sandbox.exists(name))
    }

    @Test("Only a mixture of both texts can be what a kill has left")
    func onlyAMixtureIsInterrupted() {
        for count in 0...Self.record.text.count {
            let mixture = Self.record.text.prefix(count) + Self.record.former.dropFirst(count)
            #expect(Self.record.canBeInterrupted(as: Array(mixture)))
        }
        for other in ["", "one\n", "one\ntwo\nthree\nfour\n", "one\nTwo\nthree\n", "One\nthree\n"] {
            #expect(!Self.record.canBeInterrupted(as: bytes(other)), "\(other)")
        }
    }
}
