// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Real programs do the same work in a mount and in a plain directory. Both directories must be equal afterwards.
extension MountTests {
    @Suite struct RealWorkloadTests {
        /// A script that compares the directories. It also compares the times of copies by tar, rsync and cp, but not git's
        /// index, which contains times and inode numbers.
        private static let comparison = Script(
            """
            exec "$1" "$2/work" "$3/work" --times-below originals --times-below unpacked/originals \\
                --times-below synced --times-below copied --any-contents project/.git/index
            """)

        @Test("git, tar, rsync, cp, sqlite3, vim and make leave the same files as in a plain directory")
        func realProgramsLeaveTheSameFilesAsInAPlainDirectory() throws {
            let plain = try Lab.freshDirectory("plain")
            let work = Script("mkdir \"$2/work\"; exec \"$1\" \"$2/work\"")
            let script = Checkout.path("Scripts/demo/real-work")
            let comparison = Checkout.path("Scripts/lib/compare-trees")
            try work.run(script, plain)
            let below = try MountedDirectory.with { mount in
                try work.run(script, mount.path, within: .seconds(120))
                let seen = try Self.comparison.attempt(comparison, plain, mount.path)
                print("seen through the mount: \(seen.text)", terminator: "")
                #expect(seen.isSuccess, "\(seen.text)\(seen.errorText)")
                let below = try Self.comparison.attempt(comparison, plain, mount.below)
                print("in the directory below: \(below.text)", terminator: "")
                #expect(below.isSuccess, "\(below.text)\(below.errorText)")
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
                return mount.path
            }
            // After the unmount, the source directory must also be equal to the plain directory, so no data is missing in it.
            #expect(try Self.comparison.attempt(comparison, plain, below).isSuccess)
        }

        @Test(
            "Processes that share a database do not wait for each other's open files"
        )
        func processesThatShareADatabaseDoNotWaitForEachOther() throws {
            try MountedDirectory.with("hold=1s") { mount in
                // Truce recognizes a PostgreSQL database by a file in a directory above, and an SQLite database by its first
                // bytes.
                try Script(
                    """
                    mkdir --parents "$1"/cluster/base/5 "$1"/plain/base/5
                    echo 15 >"$1"/cluster/base/5/PG_VERSION
                    echo rows >"$1"/cluster/base/5/1247
                    echo rows >"$1"/plain/base/5/1247
                    sqlite3 "$1"/History 'CREATE TABLE rows(n INT)'
                    """
                ).run(mount.path)
                for (path, waits) in [
                    ("cluster/base/5/1247", false), ("History", false), ("plain/base/5/1247", true),
                ] {
                    // The program has changed the file and still has it open.
                    let writer = try Script(
                        "exec 3<>\"$1\"; touch --no-create \"$1\"; echo ready; read -r || true"
                    )
                    .start(mount.path + "/" + path, input: .keyboard)
                    try eventually(within: .seconds(20), "a writer of \(path)") { writer.text == "ready\n" }
                    let before = try mount.counters.suspended
                    let (_, took) = try timed {
                        try Script("exec 3<>\"$1\"").run(mount.path + "/" + path, within: .seconds(30))
                    }
                    print("opening \(path) beside a writer took \(took.milliseconds) ms")
                    let suspended = try mount.counters.suspended - before
                    #expect((suspended > 0) == waits, "\(path)")
                    writer.endInput()
                    _ = try writer.wait(within: .seconds(20))
                }
            }
        }

        @Test("The comparison of file trees finds a planted difference of each kind")
        func theTreeComparisonFindsPlantedDifferences() throws {
            let outcome = try Program("python3").attempt(
                Checkout.path("Scripts/lib/compare-trees"), "--self-test")
            print(outcome.text, terminator: "")
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(outcome.text.split(separator: "\n").count >= 11)
        }
    }
}
