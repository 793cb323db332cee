// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Guarantees, "Everything else is as in the directory below": a file that only one program uses behaves as in the plain
/// directory.
extension MountTests {
    @Suite struct PosixTests {
        @Test("All checked POSIX calls have the same results on a mount as in a plain directory")
        func posixCallsMatchThePlainDirectory() throws {
            let plain = try Lab.freshDirectory("plain")
            let expected = try Self.answers(in: plain, below: plain)
            #expect(expected.count > 1000)
            let limits = try Self.limits(for: Lab.dataPath)
            try MountedDirectory.with(Self.options) { mount in
                let found = try Self.answers(in: mount.path, below: mount.below)
                Self.compare(found, with: expected, limits: limits)
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        /// The prefix of a line for a check that cannot run on this machine. If root runs `Scripts/conformance`, more of these
        /// checks can run.
        private static let notAsked = "not asked: "

        static func compare(
            _ found: [String: String], with expected: [String: String], limits: Set<String>
        ) {
            for (name, answer) in expected.sorted(by: { $0.key < $1.key }) {
                let isSame = found[name] == answer
                let message = "\(name)\n  plain: \(answer)\n  mount: \(found[name] ?? "no answer")"
                if limits.contains(name), !answer.hasPrefix(notAsked) {
                    #expect(!isSame, "\(name) is a limit no more: take it off the list")
                } else {
                    #expect(isSame, "\(message)")
                }
            }
            #expect(found.count == expected.count)
        }

        /// The results that differ from a plain directory on every mount, because of libfuse 3.14 or the kernel's FUSE on this
        /// data path.
        static func limits(for mode: Lab.DataPath) throws -> Set<String> {
            let text = try FileContents.text(of: Checkout.path("Tests/Workers/posix/limits"))
            let lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") }
                .map { $0.split(separator: " ", maxSplits: 2) }
            return Set(lines.filter { $0[1] == "any" || $0[1] == mode.rawValue }.map { String($0[0]) })
        }

        @Test("Programs run from a mount, and a running program's file cannot be written")
        func theFileOfARunningProgramCannotBeWritten() throws {
            let plain = try Lab.freshDirectory("plain")
            let expected = try Self.programs.run(plain).text
            #expect(expected.contains("busy to write"))
            try MountedDirectory.with { mount in
                #expect(try Self.programs.run(mount.path).text == expected)
                checkForcedSteps(try mount.status())
            }
        }

        private static let programs = Script(
            """
            cd "$1"
            cp "$(command -v sleep)" program
            printf '#!/bin/sh\\necho "ran as $0 with $1"\\n' >script
            chmod 755 script
            ./script word
            ./program 0 && echo "ran"
            printf '#!/bin/sh\\n' >plain
            ./plain 2>/dev/null || echo "not executable: $?"
            exec 3>>program
            ./program 0 2>/dev/null || echo "busy to run: $?"
            exec 3>&-
            ./program 60 &
            until [[ $(readlink /proc/$!/exe) == */program ]]; do true; done
            (true >>program) 2>/dev/null || echo "busy to write: $?"
            mv program renamed
            rm renamed
            kill $!
            """)

        @Test("Removing many files leaves no descriptors open")
        func removalsOfManyFilesLeaveNoDescriptorsOpen() throws {
            try MountedDirectory.with { mount in
                let daemon = try mount.daemonPID
                try Self.makeAndRemove.run(mount.path, "100")
                let before = try Self.descriptors(of: daemon)
                try Self.makeAndRemove.run(mount.path, "3000")
                // The kernel forgets files in batches. With a leak, one descriptor for each removed file would remain open.
                try eventually(within: .seconds(10), "the descriptors of removed files to be closed") {
                    try Self.descriptors(of: daemon) < before + 200
                }
            }
        }

        @Test("The daemon closes the last removed file even if no further request comes")
        func theDaemonClosesTheLastRemovedFileWithoutAFurtherRequest() throws {
            try MountedDirectory.with { mount in
                let daemon = try mount.daemonPID
                for _ in 1...20 {
                    try Script("cd \"$1\"; for i in {1..300}; do true >$i; done; rm {1..300}").run(mount.path)
                    try eventually(within: .seconds(10), "files without names to be closed") {
                        try Self.removedFiles(of: daemon).isEmpty
                    }
                }
            }
        }

        @Test("Thirty thousand known files need a limited number of descriptors")
        func thirtyThousandFilesNeedFewDescriptors() throws {
            try MountedDirectory.with { mount in
                try Script("mkdir \"$1/many\"; cd \"$1/many\"; touch {1..30000}").run(mount.below)
                #expect(
                    try Script("find \"$1/many\" -type f -size 0 | wc -l").run(mount.path).text == "30000\n")
                try Script("cd \"$1/many\"; cat {1..30000} | wc -c").run(mount.path)
                let open = try Self.descriptors(of: try mount.daemonPID)
                print("30,000 files known, \(open) descriptors open")
                #expect(open < 20_000)
                try Script("rm -r \"$1/many\"").run(mount.path)
                checkForcedSteps(try mount.status())
            }
        }

        /// The files without a name that a process has open. A file may be closed during the listing.
        private static func removedFiles(of process: Int32) throws -> String {
            try Script("find /proc/$1/fd -lname '* (deleted)' -printf '%l\\n' 2>&1 || true").run("\(process)")
                .text
        }

        private static let makeAndRemove = Script(
            "mkdir \"$1/many\"; cd \"$1/many\"; for ((i = 0; i < $2; i++)); do true >\"$i\"; done; cd ..; rm -r many"
        )

        private static func descriptors(of process: Int32) throws -> Int {
            let listed = try Script("set -- /proc/$1/fd/*; echo $#").run("\(process)").text
            return Int(listed.dropLast()) ?? 0
        }

        static func answers(in directory: String, below: String) throws -> [String: String] {
            let checks = Checkout.path("Tests/Workers/posix-checks")
            try Script("mkdir \"$1/asked\"; chmod 755 \"$1/asked\"").run(directory)
            let outcome = try Program("python3").run(
                checks, directory + "/asked", below + "/asked", within: .seconds(120))
            return outcome.text.split(separator: "\n").reduce(into: [:]) { answers, line in
                let parts = line.split(separator: ":", maxSplits: 1)
                answers[String(parts[0])] = parts.last.map { String($0.dropFirst()) }
            }
        }

        /// The mount options. As root, the test also starts programs of other users.
        private static var options: String { isRoot ? "allow_other" : "wait=15s" }
        private static var isRoot: Bool { geteuid() == 0 }
    }
}
