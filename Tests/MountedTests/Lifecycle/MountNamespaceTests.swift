// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Containers and services have mount namespaces of their own, with copies of a mount. The kernel ends a mount only when
    /// its last copy is gone.
    @Suite struct MountNamespaceTests {
        @Test("An unused copy of a mount in another namespace keeps neither the daemon nor the source busy")
        func anUnusedCopyOfAMountKeepsNeitherDaemonNorSourceBusy() throws {
            guard Self.isRoot else { return print("only root has namespaces: shown by the run as root") }
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            let daemon = try mount.daemonPID
            let keeper = try Self.keeper.start(mount.path, input: .keyboard)
            try eventually(within: .seconds(10), "the copy") { keeper.text == "copied\n" }
            let (_, took) = try timed { try TruceCommand.run("unmount", mount.path) }
            print("a daemon whose mount is kept elsewhere ended after \(took.milliseconds) ms (of 1 s quiet)")
            #expect(took < .seconds(11))
            #expect(!MountedDirectory.isAlive(daemon))
            try mount.mount()
            try Script("echo again >\"$1/file\"").run(mount.path)
            try mount.unmount()
            try keeper.type("\n")
            // The program's copy of the mount is dead, and the error reports this.
            let outcome = try keeper.wait(within: .seconds(10))
            #expect(outcome.errorText.contains("Transport endpoint is not connected"), "\(outcome.errorText)")
        }

        @Test(
            "After an unmount, a program in a copy of the mount may use the files until it ends, and its pid is printed",
            arguments: ["file", "directory"])
        func aProgramInACopyOfAnUnmountedMountMayFinishAndItsPidIsPrinted(what: String) throws {
            guard Self.isRoot else { return print("only root has namespaces: shown by the run as root") }
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            let daemon = try mount.daemonPID
            let script = what == "file" ? Self.writer : Self.visitor
            let user = try script.start(mount.path, input: .keyboard)
            try eventually(within: .seconds(10), "the copy to be used: \(user.errorText)") {
                user.text == "using\n"
            }
            let said = try TruceCommand.run("unmount", "--lazy", mount.path).text
            #expect(said.contains("pid \(daemon) goes on serving"), "\(said)")
            #expect(said.contains("pid \(user.pid)"), "\(said)")
            #expect(MountedDirectory.isAlive(daemon))
            try user.type("\n")
            #expect(try user.wait(within: .seconds(10)).requireSuccess().text == "using\nused\n")
            #expect(try FileContents.text(of: mount.path + "/file") == "written\n")
            try eventually(within: .seconds(11), "the end of daemon \(daemon)") {
                !MountedDirectory.isAlive(daemon)
            }
        }

        @Test("A program that waits for a file during a lazy unmount gets the file")
        func aProgramThatWaitsGetsTheFileAfterALazyUnmount() throws {
            let mount = try MountedDirectory(["wait=60s", "hold-aware=60s"])
            defer { mount.abandon() }
            try mount.mount()
            let (daemon, file) = (try mount.daemonPID, mount.path + "/file")
            try FileContents.write("text\n", to: file)
            let holder = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                try Lab.variable("TRUCE_BINARY"), file, "echo held; read line", input: .keyboard)
            try eventually(within: .seconds(10), "the file to be held") { holder.text == "held\n" }
            let reader = try Program("cat").start(file)
            try mount.waitUntilParked(reader.pid)
            try TruceCommand.run("unmount", "--lazy", mount.path)
            #expect(MountedDirectory.isAlive(daemon))
            try holder.type("\n")
            #expect(try reader.wait(within: .seconds(10)).requireSuccess().text == "text\n")
            try holder.wait(within: .seconds(10)).requireSuccess()
            try eventually(within: .seconds(11), "the end of daemon \(daemon)") {
                !MountedDirectory.isAlive(daemon)
            }
        }

        private static var isRoot: Bool { geteuid() == 0 }

        private static let keeper = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                echo copied; read line; exec ls "$1"' bash "$1"
            """)

        private static let writer = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                exec 3>"$1/file" && echo using && read line && echo written >&3 && echo used' bash "$1"
            """)

        private static let visitor = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                cd "$1" && echo using && read line && echo written >file && echo used' bash "$1"
            """)
    }
}
