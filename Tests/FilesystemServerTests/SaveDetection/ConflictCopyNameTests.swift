// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite("Names of conflict copies")
struct ConflictCopyNameTests {
    @Test(
        "each tool's names lead to the document",
        arguments: [
            ("note.sync-conflict-20261128-101530-ABCDEF7.md", "note.md", "Syncthing"),
            ("note.sync-conflict-20261128-101530.md", "note.md", "Syncthing"),
            ("note.sync-conflict-20261128-101530-ABCDEF7", "note", "Syncthing"),
            (".sync-conflict-20261128-101530-ABCDEF7.bashrc", ".bashrc", "Syncthing"),
            ("a.tar.sync-conflict-20261128-101530-ABCDEF7.gz", "a.tar.gz", "Syncthing"),
            ("plan (Anna's conflicted copy 2026-11-28).txt", "plan.txt", "Dropbox"),
            ("plan (pc's conflicted copy).txt", "plan.txt", "Dropbox"),
            ("plan (conflicted copy 2026-11-28 101530).txt", "plan.txt", "Nextcloud"),
            ("plan (conflicted copy anna 2026-11-28 101530).txt", "plan.txt", "Nextcloud"),
            ("plan_conflict-20261128-101530.txt", "plan.txt", "ownCloud"),
            ("plan (SFConflict anna@example.com 2026-11-28-10-15-30).txt", "plan.txt", "Seafile"),
            ("plan (conflict_on_2026-11-28).txt", "plan.txt", "Unison"),
            ("plan (conflict #1_on_2026-11-28)", "plan", "Unison"),
            ("plan (conflict on 2026-11-28).txt", "plan.txt", "Unison"),
            ("two words (conflict #12 on 2026-11-28).txt", "two words.txt", "Unison"),
            ("plan.txt.conflict1", "plan.txt", "rclone"),
            ("plan.conflict12.txt", "plan.txt", "rclone"),
            ("plan.txt..path2", "plan.txt", "rclone"),
        ])
    func toolsNamesAreRecognised(name: String, document: String, tool: String) {
        let copy = ConflictCopyName(Array(name.utf8))
        #expect(copy?.document == Array(document.utf8))
        #expect(copy?.tool.rawValue == tool)
    }

    @Test(
        "ordinary names are no conflict copies",
        arguments: [
            "conflict", "conflicts.md", "resolved conflict.txt", "a (conflict).txt", "note.conflict",
            "x..path",
            ".sync-conflict-20261128-101530-ABCDEF7", "_conflict-20261128-101530",
            " (conflict_on_2026-11-28)",
            "..path1", ".conflict1", "note.sync-conflict-2026-101530.md",
            "note.sync-conflict-20261128-101530-abcdef7.md", "note.sync-conflict-20261128-101530-ABCDEF7x.md",
            "plan (conflicted copy).txt", "plan (conflict_on_2026-11-28)x.txt",
            "plan (conflict_on_2026-11).txt",
            "plan (conflict_on_2026-11-28", "plan (conflict_on_2026-11-28-2).txt",
        ])
    func ordinaryNamesAreNone(name: String) {
        #expect(ConflictCopyName(Array(name.utf8)) == nil)
    }

    @Test("a conflict copy of a conflict copy belongs to the latter")
    func aCopyOfACopyBelongsToTheCopy() {
        let inner = "note.sync-conflict-20261127-101530-ABCDEF7.md"
        let name = "note.sync-conflict-20261127-101530-ABCDEF7.sync-conflict-20261128-101530-ABCDEF7.md"
        #expect(ConflictCopyName(Array(name.utf8))?.document == Array(inner.utf8))
    }
}
