// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import FilesystemServer

/// For some time after a directory lost a name, each look-up in it opens the file that it finds. The tests check how long this
/// time is (D214).
@Suite("Directories that recently lost a name")
struct StalenessTests {
    @Test(
        "For one second after a name is removed, its directory counts as having recently lost a name",
        arguments: [0, 1, UInt64(1) << 32, 1 << 40])
    func aDirectoryCountsAsHavingRecentlyLostANameForOneSecond(milliseconds: UInt64) {
        let lost = milliseconds * 1_000_000
        var staleness = Staleness()
        #expect(!staleness.isRecent(at: lost))
        staleness.note(at: lost)
        #expect(staleness.isRecent(at: lost + 2_000_000))
        #expect(staleness.isRecent(at: lost + 998_000_000))
        #expect(!staleness.isRecent(at: lost + 1_002_000_000))
    }
}
