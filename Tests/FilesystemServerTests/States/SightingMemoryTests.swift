// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import Coordination
import FilesystemServer
import LinuxSystem
import Testing

/// The memory of a full table. The allocator counts the memory of a whole process, so each test runs in its own process.
@Suite struct SightingMemoryTests {
    /// A key of the same size as that of a file.
    private struct Key: Hashable, Sendable {
        let device: UInt64 = 1
        let inode: UInt64
        let mount: UInt64 = 1
        let born = FileStatus.Time(seconds: 1, nanoseconds: 1)
    }

    @Test(
        "A full table takes at most 8 MiB, however many programs have seen a document",
        arguments: [0, 1, 2, 16])
    func aFullTableTakesAtMostItsBytes(programs: Int) async {
        let result = await #expect(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) { [programs = programs as Int] in
            try Self.fill(programs)
        }
        print(String(decoding: result?.standardOutputContent ?? [], as: UTF8.self))
    }

    /// Adds documents until the table has dropped some of them. Each program is another one, as after many short commands.
    private static func fill(_ programs: Int) throws {
        let stamp = RememberedDocumentTests.stamp(1)
        let before = ctest_heap_in_use()
        var table = SightingTable<Key>(epoch: 1)
        var (number, highest, most) = (0, 0, 0)
        while number < table.count + 4096 {
            let key = Key(inode: UInt64(number))
            table.remember(key, nil, as: stamp)
            for program in 0..<programs {
                let anchor = RememberedDocumentTests.opener(Int32(number * programs + program + 1)).anchor
                _ = table.change(key) { document, _ in
                    document.noteRead(by: anchor, at: Instant(nanoseconds: 1))
                }
            }
            number += 1
            most = max(most, table.count)
            if number.isMultiple(of: 64) { highest = max(highest, ctest_heap_in_use() - before) }
        }
        print("\(programs) programs: at most \(most) documents in \(highest) bytes")
        try #require(most <= SightingTable<Key>.mostDocuments)
        try #require(highest > SightingTable<Key>.mostBytes / 2)
        try #require(highest <= SightingTable<Key>.mostBytes)
    }
}
