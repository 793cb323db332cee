// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the removal of a mount while programs have files open in it and wait for files.
    @Suite struct UnmountInUseTests {
        @Test(
            "After SIGTERM, waiting programs get an error at once, and an open file works until it is closed")
        func afterSigtermWaitingProgramsGetAnErrorAndOpenFilesWork() throws {
            let mount = try Self.mounted()
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let (pid, socket) = (try mount.daemonPID, try mount.socket())
            let threads = try Self.threads(of: pid)
            let took = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            print("waiting programs were told \(took.milliseconds) ms after SIGTERM")
            #expect(took < .seconds(10))
            #expect(try !MountedDirectory.isMounted(mount.path))

            // The name now leads to the directory without a mount. Until the last file is closed, no other program may mount
            // this directory.
            let again = try TruceCommand.attempt("mount", mount.path)
            try WrongCommandLine("mount", code: 1, "already mounted by truce by pid \(pid)").check(
                again, in: mount.path)
            try waiters.holder.must("write", "h", " and more")
            // The name of the daemon's socket still exists, but a program that connects to the socket gets an error at once.
            let knocking = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
            let knock = try Program("python3").start("-c", knocking, socket).wait(within: .seconds(10))
            #expect(knock.errorText.contains("ConnectionRefusedError"), "\(knock.errorText)")
            // The daemon must start no thread of libdispatch: where `/proc` does not show these threads, libdispatch aborts the
            // process.
            #expect(try Self.threads(of: pid).subtracting(threads) == [], "threads that came with SIGTERM")
            try waiters.holder.must("close", "h")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            #expect(try FileContents.text(of: mount.path + "/document") == "acknowledged and more")
            #expect(access(socket, F_OK) != 0)
            try mount.mount()
            try mount.unmount()
        }

        private static func threads(of pid: Int32) throws -> Set<String> {
            Set(try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task"))
        }

        @Test("A second SIGTERM ends the daemon at once, even if files are open")
        func aSecondSigtermEndsTheDaemon() throws {
            let mount = try Self.mounted()
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let pid = try mount.daemonPID
            let took = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            kill(pid, SIGTERM)
            let end = try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            print("told after \(took.milliseconds) ms; gone \(end.milliseconds) ms after the second signal")
            try mount.checkHandleSurvives(waiters.holder)
            #expect(try !MountedDirectory.isMounted(mount.path))
            try mount.mount()
            try mount.unmount()
        }

        @Test("After a lazy unmount, open files work, and waiting programs get their files")
        func openFilesWorkAfterALazyUnmount() throws {
            let mount = try Self.mounted()
            defer { mount.abandon() }
            let document = mount.path + "/document"
            let (holder, reader) = (try ScriptedProcess(), try ScriptedProcess())
            try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
            try holder.must("write", "h", "acknowledged")
            try reader.tell("read", document)
            try mount.waitUntilParked(reader.pid)
            let pid = try mount.daemonPID
            if geteuid() == 0 {
                try Program("umount").run("--lazy", mount.path)
            } else {
                try Program("fusermount3").run("-u", "-z", mount.path)
            }
            #expect(try !MountedDirectory.isMounted(mount.path))
            try holder.must("write", "h", " and more")
            #expect(!reader.isDone)
            try holder.must("close", "h")
            #expect(try reader.answer() == "ok acknowledged and more")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
        }

        @Test(
            "After an unmount, SIGTERM releases waiting programs and leaves a tmpfs that was mounted at the same path"
        )
        func sigtermAfterAnUnmountEndsTheWaitsOfAllPrograms() throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            let mount = try Self.mounted(over: "tmpfs")
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let pid = try mount.daemonPID
            try Program("umount").run("--lazy", mount.path)
            try Program("mount").run("-t", "tmpfs", "another", mount.path)
            let took = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            print("waiting programs were told \(took.milliseconds) ms after SIGTERM")
            try waiters.holder.must("close", "h")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            // Only the mount of Truce has ended: `another` still covers the first tmpfs, which still has the document.
            try Program("umount").run(mount.path)
            #expect(try FileContents.text(of: mount.path + "/document") == "acknowledged")
            try Program("umount").run(mount.path)
        }

        @Test("SIGTERM removes the mount at its present path, and not another mount at its former path")
        func sigtermRemovesTheMountAtItsPresentPath() throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            let directory = try Lab.freshDirectory("renamed")
            try Script("mkdir -p \"$1/desk/docs\" \"$1/elsewhere/docs\"").run(directory)
            try TruceCommand.run("mount", directory + "/desk/docs")
            let pid = try MountStatus(
                json: try TruceCommand.run("status", "--json", directory + "/desk/docs").output
            ).pid
            try Script(
                """
                cd "$1"; mount -t tmpfs another elsewhere/docs
                mv desk moved; ln -s elsewhere desk
                """
            ).run(directory)
            kill(pid, SIGTERM)
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            #expect(try !MountedDirectory.isMounted(directory + "/moved/docs"))
            // The mount still exists at its new place.
            try Program("umount").run(directory + "/elsewhere/docs")
        }

        @Test("SIGTERM after an unmount leaves a new mount of Truce at the same path")
        func sigtermAfterAnUnmountLeavesANewMountAtTheSamePath() throws {
            let mount = try Self.mounted()
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let pid = try mount.daemonPID
            try TruceCommand.run("unmount", "--lazy", mount.path)
            // The second mount is also a mount of Truce, so a user is allowed to remove it.
            let source = try Lab.freshDirectory("another")
            try TruceCommand.run("mount", source, mount.path)
            defer { attemptUnmount(mount.path) }
            _ = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            try waiters.holder.must("close", "h")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            try Script("echo here >\"$1/file\"").run(mount.path)
            #expect(try FileContents.text(of: source + "/file") == "here\n")
        }

        @Test("SIGTERM removes a mount whose parent directory was renamed, even to a name that is not UTF-8")
        func sigtermRemovesAMountWhoseParentDirectoryWasRenamed() throws {
            let parent = try Lab.freshDirectory("parent")
            try Program("mkdir").run(parent + "/desk")
            let mount = try Self.mounted(in: parent + "/desk")
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let pid = try mount.daemonPID
            try Script("cd \"$1\"; mv desk $'d\\xffsk'").run(parent)
            _ = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            try waiters.holder.must("close", "h")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            #expect(try !FileContents.text(of: "/proc/self/mountinfo").contains(parent))
        }

        enum Cover: CaseIterable { case root, above, both }

        @Test("SIGTERM removes a mount that another mount covers", arguments: Cover.allCases)
        func sigtermRemovesAMountThatAnotherMountCovers(by cover: Cover) throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            let parent = try Lab.freshDirectory("parent")
            let above = parent + "/above"
            try Program("mkdir").run(above)
            let mount = try Self.mounted(in: above)
            defer { mount.abandon() }
            let waiters = try WaitingPrograms(in: mount)
            let pid = try mount.daemonPID
            defer { uncover(mount.path, above) }
            if cover != .above { try Program("mount").run("-t", "tmpfs", "cover", mount.path) }
            if cover != .root { try Program("mount").run("-t", "tmpfs", "cover", above) }
            let took = try waiters.expectErrors(after: { kill(pid, SIGTERM) })
            print("waiting programs were told \(took.milliseconds) ms after SIGTERM")
            try waiters.holder.must("close", "h")
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            // The mount that covered the Truce mount still exists.
            if cover != .root { try Program("umount").run(above) }
            #expect(try !FileContents.text(of: "/proc/self/mountinfo").contains(parent))
            #expect(try FileContents.text(of: mount.path + "/document") == "acknowledged")
        }

        @Test("When SIGTERM removes a mount, the log names the mounts inside it that are removed with it")
        func theLogNamesTheInnerMountsThatSigtermRemoves() throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            let directory = try Lab.freshDirectory("named")
            try Program("mkdir").run(directory + "/inner")
            let daemon = try TruceCommand.start("mount", "-f", directory)
            defer { daemon.send(SIGKILL) }
            try eventually(within: .seconds(20), "the mount of a daemon in the foreground") {
                try MountedDirectory.isMounted(directory)
            }
            try Script("mount -t tmpfs another \"$1/inner\" && mkdir \"$1/inner/most\"").run(directory)
            try Program("mount").run("-t", "tmpfs", "another", directory + "/inner/most")
            daemon.send(SIGTERM)
            let outcome = try daemon.wait(within: .seconds(10)).requireSuccess()
            let places = "\(directory)/inner, \(directory)/inner/most\n"
            #expect(
                outcome.errorText.contains("and with it what is mounted in it: \(places)"),
                "\(outcome.errorText)")
            #expect(try !FileContents.text(of: "/proc/self/mountinfo").contains(directory))
        }

        @Test(
            "A mount that replaces a dead mount prints which mounts inside the dead mount were removed with it",
            arguments: [false, true])
        func aMountThatReplacesADeadMountNamesTheRemovedInnerMounts(isInForeground: Bool) throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try Script("mkdir -p \"$1/inner\"").run(mount.path)
            try mount.mount()
            try Script("mount -t tmpfs another \"$1/inner\" && mkdir \"$1/inner/most\"").run(mount.path)
            try Program("mount").run("-t", "tmpfs", "another", mount.path + "/inner/most")
            try mount.kill()
            let mounting =
                try isInForeground
                ? TruceCommand.start("mount", "-f", mount.path) : TruceCommand.start("mount", mount.path)
            try eventually(within: .seconds(20), "the line of success: \(mounting.errorText)") {
                mounting.text.contains("is mounted in place")
            }
            let places = "'\(mount.path)/inner', '\(mount.path)/inner/most'"
            #expect(
                mounting.text.contains("'\(mount.path)', and with it what was mounted in it: \(places)\n"),
                "\(mounting.text)")
            try TruceCommand.run("unmount", mount.path)
            try mounting.wait(within: .seconds(10)).requireSuccess()
        }

        /// Removes all mounts at these places after a failed test. Only mounts of this test can be there.
        private func uncover(_ places: String...) {
            do {
                for place in places { _ = try Program("umount").attempt("--lazy", place) }
            } catch { Issue.record(error) }
        }

        private func attemptUnmount(_ place: String) {
            do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
        }

        private static func mounted(over type: String) throws -> MountedDirectory {
            let mount = try MountedDirectory(["wait=60s,hold=60s,idle=60s"])
            try Program("mount").run("-t", type, "volume", mount.path)
            try FileContents.write("old\n", to: mount.path + "/document")
            try mount.mount()
            return mount
        }

        private static func mounted(in parent: String? = nil) throws -> MountedDirectory {
            let mount = try MountedDirectory(["wait=60s,hold=60s,idle=60s"], in: parent)
            try FileContents.write("old\n", to: mount.path + "/document")
            try mount.mount()
            return mount
        }

        /// A program that has a document open, and programs that wait for this document, each with a different kind of request.
        private struct WaitingPrograms {
            let holder: ScriptedProcess
            private let waiters: [ScriptedProcess]
            private let aware: RunningProgram

            init(in mount: MountedDirectory) throws {
                let document = mount.path + "/document"
                holder = try ScriptedProcess()
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                try holder.must("write", "h", "acknowledged")
                waiters = try (0..<3).map { _ in try ScriptedProcess() }
                try waiters[0].tell("read", document)
                try waiters[1].tell("open", "w", document, "O_WRONLY|O_TRUNC")
                try waiters[2].tell("truncate", document, "1")
                for waiter in waiters { try mount.waitUntilParked(waiter.pid) }
                aware = try TruceCommand.start("write", document, "--", "true")
                try mount.waitUntilParked(aware.pid)
            }

            /// Runs a step. Returns the time until each waiting program has an error.
            func expectErrors(after step: () -> Void) throws -> Duration {
                let (_, took) = try timed {
                    step()
                    for waiter in waiters { #expect(try waiter.answer() == "ENOTCONN") }
                    let outcome = try aware.wait(within: .seconds(10), for: "the end of 'truce write'")
                    print("truce write: \(outcome.errorText)", terminator: "")
                    #expect(!outcome.isSuccess)
                    #expect(outcome.errorText.split(separator: "\n").count == 1, "\(outcome.errorText)")
                }
                return took
            }
        }
    }
}
