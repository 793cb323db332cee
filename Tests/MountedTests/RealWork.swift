// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Evidence 3: real programs do the same work on a mount and on the plain directory, and leave the same tree.
extension Mounted {
    @Suite struct RealWork {
        /// What tar, rsync and cp copied keeps its times; git's index holds times and inode numbers by itself.
        private static let comparison = Script(
            """
            exec "$1" "$2/work" "$3/work" --times-below originals --times-below unpacked/originals \\
                --times-below synced --times-below copied --any-contents project/.git/index
            """)

        @Test("git, tar, rsync, cp, sqlite3, vim and make leave the same tree as on the plain directory")
        func sameTree() throws {
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
                checkForced(try mount.status())
                return mount.path
            }
            // Nothing of it was only in some cache.
            #expect(try Self.comparison.attempt(comparison, plain, below).isSuccess)
        }

        @Test("The comparison finds one planted difference of each kind")
        func comparison() throws {
            let outcome = try Program("python3").attempt(
                Checkout.path("Scripts/lib/compare-trees"), "--self-test")
            print(outcome.text, terminator: "")
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(outcome.text.split(separator: "\n").count >= 11)
        }
    }
}
