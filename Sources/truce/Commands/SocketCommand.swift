// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct SocketCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "socket", abstract: "Prints where the control socket of a mount is.")
    }

    @Flag(help: "Print it with the mountpoint, as one line of JSON.")
    var json = false

    @Flag(
        help:
            "Print the socket for all users of the mount, also to root and the owner, which have another socket."
    )
    var shared = false

    @Argument(help: "A path in the mount.", completion: .file())
    var path: String

    func run() throws {
        let (mount, socket) = try Watchdog.withDeadline {
            let mount = try MountFinder.mount(holding: RawArgument.bytes(of: path))
            return (mount, try MountSocket.path(of: mount, isShared: shared))
        }
        let form = SocketForm(
            mountpoint: String(decoding: mount.mountpoint, as: UTF8.self),
            socket: String(decoding: socket, as: UTF8.self))
        // If standard output is no terminal, a program reads the path. It needs the exact bytes of the path, without
        // any change for display.
        if !json, isatty(STDOUT_FILENO) == 0 {
            LineOutput.writeExactly(line: socket, to: STDOUT_FILENO)
        } else {
            try CommandOutput.print(form, asJSON: json) { [socket.printable] }
        }
    }
}

/// The output of `truce socket --json`.
private struct SocketForm: Encodable {
    var mountpoint: String
    var socket: String
}
