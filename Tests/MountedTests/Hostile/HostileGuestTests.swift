// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests.HostileClientTests {
    /// The output of `hostile-guest deny`, which tries requests that guests have no right to.
    struct Denials: Decodable {
        var count: Int
        var failures: [String]
    }

    /// The output of `hostile-guest rage`, which tries to exceed each limit.
    struct LimitAttack: Decodable {
        var numbers: [String: Int]
        var failures: [String]
    }

    /// The output of `hostile-guest measure`, which measures how long other users wait. Times are in milliseconds.
    struct Latency: Decodable {
        struct Times: Decodable, CustomStringConvertible {
            var count: Int
            var median: Double
            var maximum: Double
            var description: String { "\(count) accesses, median \(median) ms, longest \(maximum) ms" }
        }
        /// The times of accesses to a file that no other program uses.
        var quiet: Times
        /// The times of accesses to a file with a presenter of a guest that never answers in time.
        var shared: Times
        var refused: Int
    }

    /// The longest time in milliseconds that an access may take: the limit of the delay, and a margin for a busy machine.
    static let delay = 10_000.0
    /// The memory in kB that the daemon may use during the attack. Most of it contains replies that no client reads.
    static let mostMemory = 160 << 10
    /// The memory in kB by which the daemon may grow when the attack is repeated.
    static let moreMemory = 32 << 10

    @Test(
        "A guest is denied requests that its user has no right to, and its presenters are not asked about them"
    )
    func aGuestIsDeniedWhatItsUserMayNotDo() throws {
        guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
        let mount = try ForegroundMount("allow_other")
        defer { mount.abandon() }
        try Self.files.run(mount.path)
        let holder = try Self.start(mount, "hold")
        try eventually(within: .seconds(20), "a program with an access\n\(holder.errorText)") {
            holder.text.hasSuffix("\n") || holder.hasEnded
        }
        let outcome = try Program("python3").run(
            Self.worker, mount.socket, "deny", String(holder.pid),
            holder.text.trimmingCharacters(in: .newlines))
        try holder.end().requireSuccess()
        let denials = try JSONDecoder().decode(Denials.self, from: Data(outcome.output))
        print("guests: \(denials.count) requests that are denied or cut down")
        #expect(denials.failures == [])
        #expect(denials.count > 150)
        try mount.end()
    }

    @Test(
        "A guest that has reached all its limits delays other clients only briefly, and leaves no resources in use"
    )
    func aGuestThatHasReachedAllItsLimitsDelaysOtherClientsOnlyBriefly() throws {
        guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
        guard try Lab.dataPath == .passthrough else { return print("shown where the kernel moves the data") }
        let mount = try ForegroundMount("allow_other", "relinquish=500ms")
        defer { mount.abandon() }
        try Self.files.run(mount.path)
        let fresh = try mount.holdings()
        let rounds = try (1...2).map { _ in try round(mount, descriptors: fresh.descriptors) }
        print("guests: daemon: \(fresh)")
        for round in rounds {
            #expect(round.rage.failures == [])
            #expect(round.latency.quiet.count >= 100)
            #expect(round.latency.quiet.maximum < Self.delay)
            #expect(round.latency.shared.maximum < Self.delay)
            #expect(round.holdings.highest < Self.mostMemory)
            print(
                "guests: \(round.rage.numbers.sorted { $0.key < $1.key }); meanwhile "
                    + "\(round.latency.quiet); of what the guest presents \(round.latency.shared), "
                    + "\(round.latency.refused) refused; then \(round.holdings)")
        }
        #expect(rounds[1].holdings.highest < rounds[0].holdings.highest + Self.moreMemory)
        try mount.end()
    }

    @Test("However many guests connect, the daemon has descriptors left for files and for the mount's owner")
    func theDaemonHasDescriptorsLeftForFilesWhenManyGuestsConnect() throws {
        guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
        let mount = try ForegroundMount("allow_other")
        defer { mount.abandon() }
        let guests = try Program("python3").start(
            "-c",
            """
            import os, resource, socket, sys
            place, daemon = sys.argv[1], int(sys.argv[2])
            hard = resource.prlimit(daemon, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(daemon, resource.RLIMIT_NOFILE, (800, hard))
            held, refused = [], 0
            for user in range(5):
                os.seteuid(0)
                os.setegid(200000 + user)
                os.seteuid(200000 + user)
                for _ in range(40):
                    one = socket.socket(socket.AF_UNIX)
                    one.connect(place)
                    one.sendall(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\\n')
                    reply = one.recv(4096)
                    if b'"error"' in reply:
                        refused += 1
                        why = reply
                    held.append(one)
            print(len(held), refused, why.decode().strip(), flush=True)
            sys.stdin.readline()
            """, mount.socket, String(mount.pid), input: .keyboard)
        defer { guests.send(SIGKILL) }
        try eventually(within: .seconds(20), "the guests: \(guests.errorText)") {
            guests.text.hasSuffix("\n")
        }
        #expect(guests.text.hasPrefix("200 100 "), "\(guests.text)")
        #expect(guests.text.contains("guests of this mount have 100 connections"))
        try TruceCommand.run("status", mount.path)
        try Script("cd \"$1\"; echo text >file; ls; cat file").run(mount.path)
        try guests.type("\n")
        try guests.wait(within: .seconds(10)).requireSuccess()
        try mount.end()
    }

    @Test(
        "A guest gets no information about files that it may not read, and causes few questions to presenters"
    )
    func aGuestGetsNoInformationAboutUnreadableFiles() throws {
        guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
        let mount = try ForegroundMount("allow_other")
        defer { mount.abandon() }
        try Self.files.run(mount.path)
        let outcome = try Program("python3").run(
            Checkout.path("Tests/Workers/curious-guest"), mount.socket, mount.path, within: .seconds(200))
        let rage = try JSONDecoder().decode(LimitAttack.self, from: Data(outcome.output))
        print("guests: \(rage.numbers.sorted { $0.key < $1.key })")
        #expect(rage.failures == [])
        try mount.end()
    }

    private struct Round {
        let rage: LimitAttack
        let latency: Latency
        /// The resources of the daemon after all clients have left.
        let holdings: DaemonResources
    }

    private func round(_ mount: ForegroundMount, descriptors: Int) throws -> Round {
        let measuring = try Self.start(mount, "measure")
        try eventually(within: .seconds(20), "the measuring program\n\(measuring.errorText)") {
            measuring.text == "ready\n" || measuring.hasEnded
        }
        let outcome = try Program("python3").run(Self.worker, mount.socket, "rage", within: .seconds(240))
        measuring.send(SIGTERM)
        let measured = try measuring.wait(within: .seconds(30)).requireSuccess()
        let figures = measured.text.dropFirst("ready\n".count)
        return Round(
            rage: try JSONDecoder().decode(LimitAttack.self, from: Data(outcome.output)),
            latency: try JSONDecoder().decode(Latency.self, from: Data(figures.utf8)),
            holdings: try settle(mount, descriptors: descriptors, kilobytes: .max))
    }

    private static let worker = Checkout.path("Tests/Workers/hostile-guest")
    private static var isRoot: Bool { geteuid() == 0 }

    private static func start(_ mount: ForegroundMount, _ role: String) throws -> RunningProgram {
        try Program("python3").start(worker, mount.socket, role)
    }

    /// Makes the files. User 12345 is the guest, and user 12346 is another user.
    private static let files = Script(
        """
        cd "$1"
        chmod 755 .
        for name in open held shared quiet private; do echo "contents of $name" >"$name"; done
        chmod 644 open quiet
        chmod 666 held shared
        chmod 600 private
        mkdir secret guest pub
        chmod 777 pub
        echo "everybody's" >pub/file
        chmod 666 pub/file
        echo "a secret" >secret/file
        chmod 644 secret/file
        chown -R 12346:12346 secret
        chmod 700 secret
        echo "the guest's" >guest/mine
        chown -R 12345:12345 guest
        ln -s /etc/passwd out
        ln -s ../../../../../../../../etc/passwd up
        ln -s secret/file sly
        ln -s up chain
        ln -s /etc folder-out
        ln -s secret sly-folder
        """)
}
