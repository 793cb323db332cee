// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import FilesystemServer

/// For how long looks in a directory keep open what they find (D214).
@Suite("Directories that have lost a name")
struct StalenessTests {
    @Test(
        "A directory that has lost a name a second ago is as any other",
        arguments: [0, 1, UInt64(1) << 32, 1 << 40])
    func stalenessLastsOneSecond(milliseconds: UInt64) {
        let lost = milliseconds * 1_000_000
        var staleness = Staleness()
        #expect(!staleness.isRecent(at: lost))
        staleness.note(at: lost)
        #expect(staleness.isRecent(at: lost + 2_000_000))
        #expect(staleness.isRecent(at: lost + 998_000_000))
        #expect(!staleness.isRecent(at: lost + 1_002_000_000))
    }
}
