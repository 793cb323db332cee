// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// The number of a document's versions is limited. Versions are charged to a user, and use no room that is reserved for root
/// (D192 to D194).
extension MountTests {
    @Suite struct VersionLimitTests {
        private static let bounds = "wait=20s,hold=200ms,idle=100ms"

        @Test("Of many rewrites beside a suspended writer, the first and the last three versions stay")
        func manyRewritesRetainFirstAndLastVersions() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(Self.bounds, prepare: prepare) { mount in
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                let document = mount.path + "/document"
                try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
                try holder.must("write", "h", ", held")
                for number in 1...10 { try other.must("put", document, "text \(number)") }
                try eventually(within: .seconds(10), "versions to be let go of") {
                    try mount.kept("document").count <= 4
                }
                let texts = try mount.kept("document").map { try mount.text(ofKept: $0.id) }
                #expect(texts == ["text 10", "text 9", "text 8", "old, held"])
                // The contents of each save were preserved once, and not preserved a second time before the next save.
                #expect(try mount.counters.kept == 11)
                try holder.must("close", "h")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test("Versions are owned by the document's owner, and do not use disk space reserved for root")
        func versionsUseOnlyTheirOwnersDiskSpace() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (mount: MountedDirectory) in
                _ = try Script(
                    """
                    head -c 12M /dev/urandom >"$1/document"
                    echo text >"$1/small"
                    head -c 12M /dev/urandom >"$1/roots"
                    chmod 666 "$1/roots"
                    chown 65534:65534 "$1" "$1/document" "$1/small"
                    # Fill the room that is not reserved for root, except 8 MiB.
                    sync -f "$1"
                    room=$(($(stat -f -c "%a * %S" "$1") - 8388608))
                    setpriv --reuid=65534 --regid=65534 --clear-groups fallocate -l "$room" "$1/filler"
                    sync -f "$1"
                    """
                ).run(mount.path)
            }
            try LoopFilesystem.with(
                ["allow_other,keep-share=100%,keep-room=1T", Self.bounds], prepare: prepare
            ) { mount in
                let (holder, other) = (try Self.user(), try Self.user())
                let (document, small) = (mount.path + "/document", mount.path + "/small")
                let rooms = { () throws -> UInt64 in
                    var status = statvfs()
                    guard statvfs(mount.below, &status) == 0 else { throw TestFailure("no statvfs") }
                    return UInt64(status.f_bfree - status.f_bavail) * UInt64(status.f_frsize)
                }
                let reserved = try rooms()
                #expect(reserved > 12 << 20)
                let roots = mount.path + "/roots"
                for path in [document, small, roots] {
                    try holder.must("open", path, path, "O_WRONLY|O_APPEND")
                    try holder.must("write", path, "x")
                }
                // The remaining room of the file system is reserved for root.
                for path in [document, roots] {
                    #expect(try other.ask("open", "o", path, "O_WRONLY|O_TRUNC") == "EBUSY", "\(path)")
                }
                #expect(try rooms() == reserved)
                try other.must("open", "o", small, "O_WRONLY|O_TRUNC")
                let id = try #require(try mount.kept("small").first?.id)
                var copy = stat()
                #expect(stat(mount.below + "/.truce/store/kept/" + id, &copy) == 0)
                #expect(copy.st_uid == 65534 && copy.st_gid == 65534 && copy.st_mode & 0o777 == 0o600)
                #expect(try mount.kept("document").count == 0)
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "At the store's limit a truncating open gets EBUSY, a removal goes ahead, and the log names the reason"
        )
        func atTheStoresLimitTruncationFailsAndRemovalProceeds() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            guard geteuid() == 0 else {
                return print("only root can make a file system: shown by the run as root")
            }
            try SmallFilesystem.with("size=64m") { small in
                try Script("head -c 2097152 /dev/zero >\"$1/one\"; cp \"$1/one\" \"$1/two\"").run(
                    small.source)
                try small.mount("keep-room=1M")
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try small.refuses(holder, other, "one", size: 2_097_152)
                try holder.must("open", "t", small.source + "/two", "O_WRONLY")
                try holder.must("write", "t", "x")
                try other.must("unlink", small.source + "/two")
                // The test reads the daemon's log on a thread of its own, so a line can arrive after the answer.
                let reasons = {
                    small.log.split(separator: "\n").filter { $0.contains("could not be preserved") }
                }
                try eventually(within: .seconds(10), "the reason in the log: \(small.log)") {
                    !reasons().isEmpty
                }
                let lines = reasons()
                #expect(lines.count == 1 && lines[0].contains("overLimit"), "\(small.log)")
            }
        }

        @Test(
            "Restoring over a document waits for its writer, preserves its contents, and keeps its inode and rights"
        )
        func restoringADocumentWaitsForItsWriterAndPreservesItsContents() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            let prepare = { (source: String) in
                _ = try Script(
                    """
                    echo -n former >"$1/document"
                    chmod 640 "$1/document"
                    setfattr -n user.test -v value "$1/document" || true
                    setfacl -m u:12345:r "$1/document" || true
                    [ "$(id -u)" != 0 ] || chown 65534:12345 "$1/document"
                    echo -n text >"$1/other"
                    """
                ).run(source)
            }
            try MountedDirectory.with("wait=500ms,hold=60s,idle=60s", prepare: prepare) { mount in
                let (document, holder, other) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                // The contents of both files, "former" and "text", are preserved.
                for path in [document, mount.path + "/other"] {
                    try holder.must("open", path, path, "O_WRONLY|O_APPEND")
                    try holder.must("write", path, "!")
                    try other.must("open", path, path, "O_WRONLY|O_TRUNC")
                    try holder.must("close", path)
                    try other.must("write", path, "new text")
                }
                let id = try #require(try mount.kept("document").last?.id)
                let foreign = try #require(try mount.kept("other").last?.id)
                let look = Script("stat -c '%i %u %g %a' \"$1\"; getfattr -dm- \"$1\" 2>/dev/null || true")
                let before = try look.run(document).text

                let restoring = try TruceCommand.start(
                    "versions", document, "restore", id, document, "--force")
                try eventually(within: .seconds(10), "the access to wait") {
                    try !mount.status().waiting.isEmpty || restoring.hasEnded
                }
                #expect(try FileContents.text(of: mount.below + "/document") == "new text")
                try other.must("close", document)
                try restoring.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: document) == "former!")
                #expect(try look.run(document).text == before)
                let kept = try mount.kept("document")
                #expect(kept.first?.cause == "restoring")
                #expect(try mount.text(ofKept: try #require(kept.first?.id)) == "new text")

                let output = try TruceCommand.run("versions", document, "restore", id, "-")
                #expect(output.text == "former!")
                for target in ["-", document, mount.path + "/third"] {
                    let refused = try TruceCommand.attempt(
                        "versions", document, "restore", foreign, target, "--force")
                    #expect(
                        !refused.isSuccess && refused.text.isEmpty
                            && refused.errorText.contains("is a version of 'other', not of 'document'"),
                        "\(refused.errorText)")
                }
                #expect(try FileContents.text(of: document) == "former!")
                #expect(FileContents.ofFile(mount.path + "/third") == nil)
                let again = try TruceCommand.attempt("versions", document, "restore", id, document)
                #expect(!again.isSuccess && again.errorText.contains("--force"))
                try other.must("close", mount.path + "/other")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test("git and tar of any user print no error about the store of a directory that is not mounted")
        func gitAndTarIgnoreAnUnmountedStore() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (source: String) in
                _ = try Script("echo text >\"$1/document\"; chown -R 65534:65534 \"$1\"").run(source)
            }
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try prepare(mount.path)
            try mount.mount()
            try mount.unmount()
            let outcome = try Script(
                """
                cd "$1"
                as() { setpriv --reuid="$1" --regid="$1" --clear-groups env HOME=/nonexistent "${@:2}"; }
                as 65534 git init -q .
                # These users read the directory but do not own the store.
                for user in 65534 0; do
                    as $user git -c safe.directory="*" status --porcelain
                    as $user git -c safe.directory="*" add -A
                    as $user git -c safe.directory="*" status --porcelain
                    as $user tar --exclude-caches -cf /dev/null .
                done
                as 12345 git -c safe.directory="*" status --porcelain
                as 12345 tar --exclude-caches -cf /dev/null .truce document
                as 65534 cat .truce/README >/dev/null
                """
            ).attempt(mount.path)
            #expect(outcome.isSuccess && outcome.errorText.isEmpty, "\(outcome.errorText)")
            #expect(
                outcome.text == """
                    ?? document
                    A  document
                    A  document
                    A  document
                    A  document

                    """, "\(outcome.text)")
        }

        @Test(
            "Versions caused by another user take half of the owner's room in the store, and the owner's saves go on (D212)"
        )
        func versionsCausedByAnotherUserTakeHalfOfTheOwnersRoom() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (source: String) in
                _ = try Script(
                    """
                    head -c 300000 /dev/zero >"$1/shared"
                    head -c 300000 /dev/urandom >"$1/mine"
                    chown -R 65534:65534 "$1"
                    chmod 666 "$1/shared"
                    """
                ).run(source)
            }
            let options = "allow_other,keep-share=100%,keep-room=1M,"
            try MountedDirectory.with(options + Self.bounds, prepare: prepare) { mount in
                let (shared, mine) = (mount.path + "/shared", mount.path + "/mine")
                let (holder, stranger) = (try Self.user(12_345), try Self.user(12_345))
                try holder.must("open", "h", shared, "O_WRONLY|O_APPEND")
                try holder.must("write", "h", "x")
                var outcomes: [String] = []
                for number in 0..<4 {
                    outcomes.append(try stranger.ask("open", "s", shared, "O_WRONLY|O_TRUNC"))
                    guard outcomes.last != "EBUSY" else { continue }
                    try stranger.must("size", "s", "\(300_000 + number)")
                    try stranger.must("place", "s", "text \(number)")
                    try stranger.must("close", "s")
                }
                #expect(outcomes.map { $0 == "EBUSY" } == [false, true, true, true], "\(outcomes)")
                let (owner, other) = (try Self.user(), try Self.user())
                try owner.must("open", "h", mine, "O_WRONLY|O_APPEND")
                try owner.must("write", "h", "x")
                try other.must("open", "o", mine, "O_WRONLY|O_TRUNC")
                #expect(try mount.kept("mine").count == 1)
                #expect(try mount.kept("shared").count == 1)
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "Preserved contents of another user use that user's half of the store's room, and not the owner's half (D212)"
        )
        func preservedContentsOfAnotherUserUseThatUsersHalfOfTheRoom() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (source: String) in
                _ = try Script(
                    """
                    for name in one two three; do echo text >"$1/$name"; done
                    head -c 300000 /dev/urandom >"$1/mine"
                    chown -R 65534:65534 "$1"
                    chmod 666 "$1/one" "$1/two" "$1/three"
                    """
                ).run(source)
            }
            let options = "allow_other,keep-share=100%,keep-room=1M,"
            try MountedDirectory.with(options + Self.bounds, prepare: prepare) { mount in
                let (holder, stranger) = (try Self.user(12_345), try Self.user(12_345))
                for name in ["one", "two", "three"] {
                    let path = mount.path + "/" + name
                    try holder.must("open", name, path, "O_RDWR")
                    try stranger.must("open", "s", path, "O_WRONLY|O_TRUNC")
                    try stranger.must("size", "s", "300000")
                    try stranger.must("close", "s")
                }
                let (owner, other, mine) = (try Self.user(), try Self.user(), mount.path + "/mine")
                try owner.must("open", "h", mine, "O_WRONLY|O_APPEND")
                try owner.must("write", "h", "x")
                try other.must("open", "o", mine, "O_WRONLY|O_TRUNC")
                #expect(try mount.kept("mine").count == 1)
                for name in ["one", "two", "three"] { try holder.must("close", name) }
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        /// Starts a process of a user other than root.
        private static func user(_ number: Int = 65534) throws -> ScriptedProcess {
            try ScriptedProcess(
                Script(
                    """
                    PATH=/usr/bin:/bin
                    exec setpriv --reuid="$2" --regid="$2" --clear-groups python3 -c "$(cat "$1")"
                    """
                ).start(Checkout.path("Tests/Workers/actor"), "\(number)", input: .keyboard))
        }
    }
}
