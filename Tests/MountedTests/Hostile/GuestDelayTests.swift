// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that a guest delays other users only for a limited time. Also checks that other clients can use the control
    /// socket while a guest makes many connections.
    ///
    /// `TRUCE_GUESTS=full` runs the whole attack with the default limits of a mount.
    @Suite struct GuestDelayTests {
        /// The output of the program `knocking`, with times in milliseconds.
        private struct FloodFigures: Decodable {
            struct Figures: Decodable {
                var longest: Double
                var count: Int
                var failures: [String]
            }
            var status: Figures
            var owner: Figures
            var guest: Figures
        }

        /// The extra time allowed for a busy machine, in milliseconds.
        private static let margin = 10_000
        private static let isFull = ProcessInfo.processInfo.environment["TRUCE_GUESTS"] == "full"

        @Test("Guests that connect all the time block neither root's nor an editor's connections")
        func floodsOfConnectionsBlockNoOtherClient() throws {
            guard try Self.isShown() else { return }
            try MountedDirectory.with("allow_other", prepare: { try Self.files.run($0) }) { mount in
                let knocking = try Program("python3").start(
                    Checkout.path("Tests/Workers/knocking"), mount.path, Self.isFull ? "40" : "8",
                    Self.isFull ? "20" : "2")
                var longest = Duration.zero
                while !knocking.hasEnded {
                    longest = max(longest, try timed { try TruceCommand.run("status", mount.path) }.took)
                }
                let outcome = try knocking.wait(within: .seconds(60)).requireSuccess()
                print("'truce status' beside them: \(longest.milliseconds) ms")
                #expect(longest < (Self.isFull ? .seconds(1) : .milliseconds(Self.margin)))
                let figures = try JSONDecoder().decode(FloodFigures.self, from: Data(outcome.output))
                print("guests that connect: \(outcome.text)")
                for figures in [figures.status, figures.owner, figures.guest] {
                    #expect(figures.failures == [])
                    #expect(figures.longest < Double(Self.margin))
                    #expect(figures.count > 0)
                }
                if Self.isFull { #expect(max(figures.status.longest, figures.owner.longest) < 1_000) }
            }
        }

        @Test("Root and the owner have a socket that other users can neither find nor use")
        func theOwnersSocketIsHiddenFromOthers() throws {
            guard try Self.isShown() else { return }
            try MountedDirectory.with("allow_other", prepare: { try Self.files.run($0) }) { mount in
                let (own, shared) = (
                    try mount.socket(), try TruceCommand.run("socket", "--shared", mount.path).text
                )
                #expect(own.hasSuffix(".owner.sock") && own + "\n" != shared)
                #expect(try Program("stat").run("-c", "%a %u", own).text == "600 0\n")
                let guest = """
                    import os, socket, sys
                    mount, own = sys.argv[1:]
                    os.setgroups([])
                    os.setresgid(12345, 12345, 12345)
                    os.setresuid(12345, 12345, 12345)
                    for attribute in ["user.truce.socket", "user.truce.socket.owner"]:
                        try:
                            print(os.fsdecode(os.getxattr(mount, attribute)))
                        except OSError as error:
                            print(error.strerror)
                    try:
                        socket.socket(socket.AF_UNIX).connect(own)
                    except OSError as error:
                        print(error.strerror)
                    """
                let told = try Program("python3").run("-c", guest, mount.path, own).text
                #expect(told == shared + "No data available\nPermission denied\n")
                let names = try Program("getfattr").run("--absolute-names", "-m", "-", mount.path).text
                #expect(!names.contains("truce"))
            }
        }

        @Test(
            "A guest's readers delay another user's writes until the allowance is used up, and then only for a moment"
        )
        func aGuestsReaderDelaysWritesOnlyUntilTheGuestsAllowanceIsUsedUp() throws {
            guard try Self.isShown() else { return }
            let options = Self.isFull ? ["allow_other"] : ["allow_other", "hold=1s", "guest-delay=2s"]
            try Self.withMount(options) { mount in
                let waits = try Self.delays("read", mount, Self.isFull ? "100" : "5")
                print("writes beside a fresh reader every 0.4 s: \(waits) ms")
                // Before the guest's allowance was used up, some waits lasted for the full hold time.
                #expect(waits.contains { $0 >= 900 })
                let (allowed, hold) = Self.isFull ? (60_000, 10_000) : (2_000, 1_000)
                #expect(waits.prefix { $0 > 600 }.reduce(0, +) < allowed + hold + Self.margin)
                // After the allowance is used up, a wait is short. The bound allows for a busy machine.
                #expect(waits.suffix(3).sorted()[1] < 900, "\(waits)")
                #expect(waits.count > 3)
                let told = try TruceCommand.run("status", mount.path).text
                #expect(told.contains("user 12345 has made user 12346 wait"))
                #expect(told.contains("its programs are waited for a moment only"), "\(told)")
            }
        }

        @Test(
            "A guest's silent presenters delay three deletions to the full deadline, and each later deletion only briefly",
            arguments: ["connection", "connections"])
        func aSilentPresenterOfAGuestDelaysThreeDeletionsFullyAndLaterOnesBriefly(connections: String) throws
        {
            guard try Self.isShown() else { return }
            let options =
                Self.isFull ? ["allow_other"] : ["allow_other", "relinquish=600ms", "deletion=600ms"]
            try Self.withMount(options) { mount in
                let waits = try Self.delays("show", mount, connections)
                print("six files with a silent presenter each, by one of the \(connections): \(waits) ms")
                try #require(waits.count == 6)
                #expect(waits.prefix(3).allSatisfy { $0 >= 500 })
                // After the allowance is used up, each deletion takes 250 ms.
                #expect(waits.suffix(3).sorted()[1] < 500, "\(waits)")
            }
        }

        private static func isShown() throws -> Bool {
            guard geteuid() == 0 else {
                print("only root can act as others: shown by the run as root")
                return false
            }
            guard try Lab.dataPath == .passthrough else {
                print("waits are the same in both data modes: shown by the run with passthrough")
                return false
            }
            return true
        }

        private static func withMount(_ options: [String], _ body: (MountedDirectory) throws -> Void) throws {
            let mount = try MountedDirectory(options)
            defer { mount.abandon() }
            try files.run(mount.path)
            try mount.mount()
            try body(mount)
            try mount.unmount()
        }

        private static func delays(_ way: String, _ mount: MountedDirectory, _ word: String) throws -> [Int] {
            let outcome = try Program("python3").run(
                Checkout.path("Tests/Workers/delaying"), way, mount.path, word, within: .seconds(200))
            return try JSONDecoder().decode([Int].self, from: Data(outcome.output))
        }

        /// Makes the files. User 12345 is the guest, and user 12346 owns the files.
        private static let files = Script(
            """
            cd "$1"
            chmod 755 .
            head -c 1000000 /dev/zero >document
            chown 12346:12346 document
            chmod 644 document
            mkdir folder
            chmod 777 folder
            for name in a b c d e f; do echo text >"folder/$name"; done
            chown 12346:12346 folder/*
            chmod 666 folder/*
            """)
    }
}
