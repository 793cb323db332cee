// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// If a program removes very many documents in a row, the daemon treats none of these removals as part of a save.
@Suite("Programs that remove many documents in a row")
struct RecentRemovalsTests {
    private let now = Instant(nanoseconds: 1)
    private let thread: Int32 = 100

    private func take(
        _ names: String..., from directory: NodeNumber = SaveTrace.folder,
        in recentRemovals: inout RecentRemovals
    ) {
        for name in names {
            recentRemovals.noteRemoved(Array(name.utf8), from: directory, by: thread, at: now)
        }
    }

    private func areMany(_ recentRemovals: RecentRemovals, at moment: Instant? = nil) -> Bool {
        recentRemovals.areMany(by: thread, from: SaveTrace.folder, at: moment ?? now)
    }

    @Test("The fourth document that a thread removes in a row from a directory exceeds the limit")
    func theFourthRemovedDocumentExceedsTheLimit() {
        var recentRemovals = RecentRemovals()
        take("a", "b", "c", in: &recentRemovals)
        #expect(!areMany(recentRemovals))
        take("d", in: &recentRemovals)
        #expect(areMany(recentRemovals))
        #expect(!recentRemovals.areMany(by: 101, from: SaveTrace.folder, at: now))
        #expect(!areMany(recentRemovals, at: now + .seconds(3)))
    }

    @Test(
        "A new file under a removed name restarts the count of removals; a new file under another name does not"
    )
    func aNewFileUnderARemovedNameRestartsTheCountOfRemovals() {
        var recentRemovals = RecentRemovals()
        take("a", "b", "c", in: &recentRemovals)
        recentRemovals.noteFilled(Array("other".utf8), in: SaveTrace.folder, by: thread)
        take("d", in: &recentRemovals)
        #expect(areMany(recentRemovals))
        recentRemovals.noteFilled(Array("d".utf8), in: SaveTrace.folder, by: thread)
        #expect(!areMany(recentRemovals))
        take("e", "f", "g", in: &recentRemovals)
        #expect(!areMany(recentRemovals))
    }

    @Test("Removals of helper files do not count as removed documents")
    func removalsOfHelperFilesDoNotCountAsRemovedDocuments() {
        var recentRemovals = RecentRemovals()
        take("a", ".a.swp", ".b.swp", ".c.swp", ".d.swp", in: &recentRemovals)
        #expect(!areMany(recentRemovals))
    }

    @Test("A removal in another directory restarts the count of removals")
    func aRemovalInAnotherDirectoryRestartsTheCountOfRemovals() {
        var recentRemovals = RecentRemovals()
        take("a", "b", "c", in: &recentRemovals)
        take("d", from: NodeNumber(2), in: &recentRemovals)
        take("e", in: &recentRemovals)
        #expect(!areMany(recentRemovals))
    }
}
