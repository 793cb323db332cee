// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the flags that a mount copies from the file system below, and the owner of files that are made after a wait.
    @Suite struct RequesterRightsTests {
        @Test(
            "The flags ro, nosuid, nodev and noexec of the source's mount also apply to the mount of Truce",
            arguments: ["rw", "ro", "nosuid", "nodev", "noexec", "ro,nosuid,nodev,noexec"])
        func theFlagsOfTheSourcesMountAlsoApplyToTheMountOfTruce(words: String) throws {
            guard Self.isRoot else {
                return print("only root can choose these flags: shown by the run as root")
            }
            let source = try Lab.freshDirectory("source")
            try Program("mount").run("-t", "tmpfs", "-o", "mode=777", "none", source)
            let result = Swift.Result { try Self.checkFlags(words, of: source) }
            try Program("umount").run("--lazy", source)
            try result.get()
        }

        private static func checkFlags(_ words: String, of source: String) throws {
            try programs.run(source)
            try Program("mount").run("-o", "remount," + words, source)
            let expected = try probe.run(source).text
            // Without a flag that forbids steps, the probe shows that each step is allowed.
            #expect(
                (words == "rw") == (expected == "user 0\nran\nwritten to a device\nmade\n"), "\(expected)")
            for place in [source, try Lab.freshDirectory("place")] {
                let data = try Lab.dataPath == .daemon ? "daemon" : "auto"
                let places = place == source ? [source] : [source, place]
                try mount(places, "allow_other,data=" + data)
                let found = Swift.Result {
                    let shown = try Program("findmnt").run("-n", "-o", "OPTIONS", "--mountpoint", place).text
                    return (try probe.run(place).text, shown.split { ",\n".contains($0) }.map(String.init))
                }
                try TruceCommand.run("unmount", place)
                let (answers, options) = try found.get()
                #expect(answers == expected, "\(place == source ? "in place" : "elsewhere")")
                for word in ["ro", "nosuid", "nodev", "noexec"] {
                    #expect(
                        options.contains(word) == words.split(separator: ",").contains(word[...]), "\(word)")
                }
            }
        }

        private static func mount(_ places: [String], _ options: String) throws {
            if places.count == 1 {
                try TruceCommand.run("mount", places[0], "-o", options)
            } else {
                try TruceCommand.run("mount", places[0], places[1], "-o", options)
            }
        }

        private static let programs = Script(
            """
            cd "$1"
            cp "$(command -v id)" id
            chmod 4755 id
            printf '#!/bin/sh\\necho ran\\n' >script
            chmod 755 script
            mknod -m 666 device c 1 3
            """)

        private static let probe = Script(
            """
            cd "$1"
            user() { setpriv --reuid=12345 --regid=12345 --clear-groups "$@" 2>/dev/null; }
            echo "user $(user ./id -u || echo refused)"
            user ./script || echo "refused"
            user bash -c 'echo >device && echo "written to a device"' || echo "refused"
            user bash -c 'echo >"new$$" && rm "new$$" && echo made' || echo "refused"
            """)

        @Test("A program that waited creates files of every kind with its own user, group and umask")
        func aProgramThatWaitedCreatesFilesWithItsRights() throws {
            guard Self.isRoot else {
                return print("only root can act as others: shown by the run as root")
            }
            try MountedDirectory.with(
                "allow_other", "wait=60s", "hold-aware=60s", prepare: { try Self.package.run($0) }
            ) { mount in
                let letter = mount.path + "/letter.textbundle"
                let holder = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), letter, "echo held; read line", input: .keyboard)
                try eventually(within: .seconds(10), "the package to be held: \(holder.errorText)") {
                    holder.text == "held\n"
                }
                // The makers' user ids are of every size. The largest valid id is one below the largest 32-bit number.
                var makers: [RunningProgram] = []
                for command in Self.commands {
                    let maker = try Program("setpriv").start(
                        "--reuid=4294967000", "--regid=2147483648", "--clear-groups", "bash", "-euc",
                        "umask 027; \(command)", at: letter)
                    makers.append(maker)
                    try eventually(within: .seconds(20), "'\(command)' to wait: \(maker.errorText)") {
                        try mount.status().waiting.count == makers.count
                    }
                }
                try holder.type("\n")
                try holder.wait(within: .seconds(20)).requireSuccess()
                for maker in makers { try maker.wait(within: .seconds(20)).requireSuccess() }
                let made = try Script("cd \"$1\"; stat --format '%n %u %g %a %h' *").run(letter)
                #expect(made.text == Self.made, "\(made.text)")
                let counters = try mount.counters
                #expect(counters.bounced >= makers.count)
                // A retry can wait while the kernel holds a lock. Such a wait is short, and the status counts it as
                // `proceeded`.
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        private static let package = Script(
            """
            mkdir "$1/letter.textbundle"
            chown 0:54321 "$1/letter.textbundle"
            chmod 2777 "$1/letter.textbundle"
            """)
        private static let commands = [
            "mkdir directory", "echo text >file", "mkfifo pipe", "mknod node p", "ln -s nowhere symbolic",
            "exec {f}>>appended",
        ]
        /// A script that prints name, user, group, mode and link count of each file.
        private static let made = """
            appended 4294967000 54321 640 1
            directory 4294967000 54321 2750 2
            file 4294967000 54321 640 1
            node 4294967000 54321 640 1
            pipe 4294967000 54321 640 1
            symbolic 4294967000 54321 777 1

            """

        private static var isRoot: Bool { geteuid() == 0 }
    }
}
