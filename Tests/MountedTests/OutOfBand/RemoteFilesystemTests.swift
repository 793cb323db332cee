// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks sources on file systems that other machines or processes also change, and that report the result of a write late.
    @Suite struct RemoteFilesystemTests {
        @Test("An error that the file system below reports only at close reaches close(2)")
        func errorsThatAreReportedAtCloseReachTheProgram() throws {
            guard geteuid() == 0 else { return print("only root can mount: shown by the run as root") }
            try Self.over("below") { directory in
                let server = try Program("python3").start(
                    Checkout.path("Tests/Workers/late-errors"), directory)
                try eventually(within: .seconds(10), "the file system\n\(server.errorText)") {
                    server.text == "served\n"
                }
                return server
            } body: { _, directory in
                let writer = try ScriptedProcess()
                try writer.must("open", "w", directory + "/file", "O_WRONLY|O_TRUNC")
                try writer.must("write", "w", "new")
                #expect(try writer.ask("close", "w") == "ENOSPC")
                let copy = try Script("echo other >\"$1/file\"").attempt(directory)
                #expect(copy.errorText == "")
            }
        }

        @Test(
            "Changes that other programs make in a remote file system are visible after about a second",
            arguments: ["source", "below"])
        func remoteChangesShowWithinASecond(place: String) throws {
            let other = try Lab.freshDirectory("other")
            try Script("echo first >\"$1/file\"").run(other)
            try Self.over(place) { directory in
                try Program("bindfs").run("-n", other, directory)
                return nil
            } body: { _, directory in
                #expect(try Program("cat").run(directory + "/file").text == "first\n")
                try Script("echo another >\"$1/new\"; mv \"$1/new\" \"$1/file\"").run(other)
                try eventually(within: .seconds(10), "the other file to be seen") {
                    try Program("stat").run("--format=%s", directory + "/file").text == "8\n"
                }
                #expect(try Program("cat").run(directory + "/file").text == "another\n")
            }
        }

        /// Mounts Truce over a source in which `serve` has made another file system: on the source itself, or on a directory in
        /// it.
        private static func over(
            _ place: String, serve: (String) throws -> RunningProgram?,
            body: (MountedDirectory, String) throws -> Void
        ) throws {
            let mount = try MountedDirectory(geteuid() == 0 ? ["allow_other"] : [])
            let far = mount.path + (place == "source" ? "" : "/far")
            try Program("mkdir").run("-p", far)
            let server = try serve(far)
            defer {
                mount.abandon()
                withExtendedLifetime(server) {}
                do { try unmount.run(far) } catch { Issue.record(error) }
            }
            try mount.mount()
            try body(mount, far)
            checkForcedSteps(try mount.status())
            try mount.unmount()
        }

        private static let unmount = Script("fusermount3 -u -z \"$1\" || umount --lazy \"$1\"")
    }
}
