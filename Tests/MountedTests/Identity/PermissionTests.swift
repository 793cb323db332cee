// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks with real programs which rights users have on each other's files, after a right was removed or while a program
    /// waits. `Scripts/conformance` checks all other cases.
    @Suite struct PermissionTests {
        @Test("On a mount, access lists apply, are inherited and clear set-group-ID as in a plain directory")
        func accessListsApplyAndAreInheritedAsInAPlainDirectory() throws {
            try Self.agreeing { try Self.lists.run($0, within: .seconds(60)).text }
        }

        private static let lists = Script(
            """
            cd "$1"
            chmod 777 .
            owner() { setpriv --reuid=12345 --regid=12345 --clear-groups "$@"; }
            other() { setpriv --reuid=12346 --regid=12346 --clear-groups "$@"; }
            member() { setpriv --reuid=12346 --regid=12346 --groups=54321 "$@"; }
            tell() { stat -c '%n %a %u %g' "$@"; getfacl -cnp "$@"; }
            owner bash -c 'umask 027; echo text >f'
            chown :54321 f
            # stat shows the mask as the mode of the group. The entry of the group itself allows nothing.
            owner setfacl -m g::-,g:77777:r f
            tell f
            member cat f 2>/dev/null || echo "refused"
            setpriv --reuid=12346 --regid=77777 --clear-groups cat f
            setpriv --reuid=12346 --regid=12346 --groups=1,77777 cat f
            other cat f 2>/dev/null || echo "refused"
            owner setfacl -m u:12346:r f
            other cat f
            other bash -c 'echo x >>f' 2>/dev/null || echo "refused"
            owner chmod g= f
            other cat f 2>/dev/null || echo "refused"
            other setfacl -m u:12346:rw f 2>/dev/null || echo "refused"
            member setfacl -b f 2>/dev/null || echo "refused"
            # If the owner is no member of the group, setting an access control list clears set-group-ID.
            for mode in 2755 6755 2711 2644; do
                chmod "$mode" f
                owner setfacl -m u:12346:rx f
                tell f
                chmod "$mode" f
                setpriv --reuid=12345 --regid=12345 --groups=54321 setfacl -m u:12346:rx f
                tell f
                owner setfacl -b f
                tell f
            done
            mkdir d
            chown 12345:54321 d
            chmod 2770 d
            setpriv --reuid=12345 --regid=54321 --clear-groups \\
                setfacl -m u:12346:rwx,d:u:12346:rw,d:g::-,d:m::rwx d
            other bash -c 'umask 0; echo x >d/f; mkdir d/s; mkfifo d/p; ln -s f d/l; ln d/f d/h; echo y >d/s/g'
            tell d d/f d/s d/p d/h d/s/g
            stat -c '%n %a %u %g' d/l
            member cat d/f 2>/dev/null || echo "refused"
            setpriv --reuid=12347 --regid=54321 --clear-groups cat d/f 2>/dev/null || echo "refused"
            other cat d/f
            """)

        @Test(
            "The contents of an append-only file cannot be changed through the mount, with or without a reader"
        )
        func appendOnlyFilesStayAppendOnly() throws {
            guard Self.isRoot else { return print("only root can set these flags: shown by the run as root") }
            let plain = try Lab.freshDirectory("plain")
            let expected = try Self.withFlag("a", in: plain, below: plain) { try Self.appending(to: $0) }
            #expect(expected.text.contains("append: done\n") && expected.text.contains("write: EPERM\n"))
            for isOpen in [false, true] {
                try MountedDirectory.with("allow_other") { mount in
                    let reader = try ScriptedProcess()
                    let found = try Self.withFlag("a", in: mount.path, below: mount.below) { directory in
                        if isOpen { try reader.must("open", "it", directory + "/log", "O_RDONLY") }
                        return try Self.appending(to: directory)
                    }
                    #expect(found.text == expected.text, "with \(isOpen ? "a reader" : "nobody") at it")
                    // A program that was wrongly allowed to write can only have appended data, so the contents still begin with
                    // the expected contents.
                    #expect(try FileContents.text(of: mount.below + "/log").hasPrefix(expected.contents))
                    if isOpen { try reader.must("close", "it") }
                    try mount.checkDataPath()
                    // An idle reader is suspended when a writer arrives.
                    checkForcedSteps(try mount.status(), except: [.suspended])
                }
            }
        }

        private static func appending(to directory: String) throws -> (text: String, contents: String) {
            let outcome = try Program("python3").run(
                Checkout.path("Tests/Workers/append-only"), directory + "/log", "12346")
            return (outcome.text, try FileContents.text(of: directory + "/log"))
        }

        @Test("Names in append-only and immutable directories change only as in a plain directory")
        func immutableDirectoriesKeepTheirNames() throws {
            guard Self.isRoot else { return print("only root can set these flags: shown by the run as root") }
            for flag in ["a", "i"] {
                let plain = try Lab.freshDirectory("plain")
                let expected = try Self.withFlag(flag, of: "d", in: plain, below: plain) {
                    try Self.names.run($0).text
                }
                #expect(expected.contains("refused: rm"))
                try MountedDirectory.with("allow_other") { mount in
                    let found = try Self.withFlag(flag, of: "d", in: mount.path, below: mount.below) {
                        try Self.names.run($0).text
                    }
                    #expect(found == expected, "+\(flag)")
                    checkForcedSteps(try mount.status())
                }
            }
        }

        private static let names = Script(
            """
            cd "$1/d"
            other() { setpriv --reuid=12346 --regid=12346 --clear-groups "$@"; }
            try() { other "$@" 2>/dev/null && echo "done: $*" || echo "refused: $*"; }
            try bash -c 'echo more >>there'
            try bash -c 'echo new >file'
            try mkdir directory
            try mkfifo pipe
            try ln -s there link
            try ln there hard
            try rm there
            try mv there away
            try bash -c 'echo other >../other; mv ../other there'
            try bash -c 'echo other >../other; mv ../other fresh'
            try chmod 700 .
            try touch .
            stat -c '%n %a %u %g' * | sort
            cat there
            """)

        /// Sets a flag of ext4 on files in the source, runs the body, and clears the flag. The file `log` and the directory `d`
        /// exist, the mount knows them, and all users may write them.
        private static func withFlag<Result>(
            _ flag: String, of name: String = "log", in directory: String, below: String,
            _ body: (String) throws -> Result
        ) throws -> Result {
            try prepare.run(directory)
            try Program("chattr").run("+" + flag, below + "/" + name)
            let result = Swift.Result { try body(directory) }
            try Program("chattr").run("-" + flag, below + "/" + name)
            return try result.get()
        }

        private static let prepare = Script(
            """
            cd "$1"
            chmod 777 .
            echo logged >log
            mkdir -p d
            echo text >d/there
            chmod 777 d
            chmod 666 log d/there
            cat log d/there >/dev/null
            """)

        private static var isRoot: Bool { geteuid() == 0 }

        /// Runs the body in a plain directory and in a mount, and checks that both give the same result.
        private static func agreeing(_ body: (_ directory: String) throws -> String) throws {
            guard isRoot else {
                return print("only root can act as others: shown by the run as root")
            }
            let expected = try body(Lab.freshDirectory("plain"))
            #expect(!expected.isEmpty)
            try MountedDirectory.with("allow_other") { mount in
                #expect(try body(mount.path) == expected)
                checkForcedSteps(try mount.status())
            }
        }
    }
}
