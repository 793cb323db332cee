// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Checks that programs that wait in the mount do not prevent the system from freezing programs or going to sleep.
extension MountTests {
    @Suite struct FreezeAndSleepTests {
        private static let margin = Duration.seconds(10)

        @Test("Signals that other programs may send by mistake do not end the daemon")
        func unusualSignalsDoNotEndTheDaemon() throws {
            guard try Lab.dataPath == .passthrough else { return print("shown by the run with passthrough") }
            try MountedDirectory.with(prepare: { try FileContents.write("text\n", to: $0 + "/file") }) {
                mount in
                let daemon = try mount.daemonPID
                let plain = [
                    SIGHUP, SIGPIPE, SIGIO, SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU,
                    SIGSTKFLT, SIGPWR,
                ]
                for signal in plain + [__libc_current_sigrtmin(), __libc_current_sigrtmax()] {
                    #expect(kill(daemon, signal) == 0, "signal \(signal)")
                    #expect(try Program("cat").run(mount.path + "/file").text == "text\n", "signal \(signal)")
                }
                #expect(try mount.daemonPID == daemon)
            }
        }

        @Test(
            "A waiting program can be frozen within a second, and goes on after it is thawed",
            arguments: ["read", "truncate"])
        func aWaitingProgramCanBeFrozen(request: String) throws {
            guard try Lab.dataPath == .passthrough else { return print("shown by the run with passthrough") }
            guard let groups = try Self.controlGroups() else {
                return print("only root freezes programs, where there are control groups of version 2")
            }
            try Self.withWaiter("wait=60s,hold=60s,idle=60s", request) { mount, waiter in
                let group = "\(groups)/truce-test-\(getpid())-\(request)"
                try Program("mkdir").run(group)
                defer {
                    do {
                        try FileContents.write("0", to: group + "/cgroup.freeze")
                        try waiter.program.end()
                        try eventually(within: Self.margin, "the group to be removed") { rmdir(group) == 0 }
                    } catch { Issue.record(error) }
                }
                try FileContents.write("\(waiter.pid)", to: group + "/cgroup.procs")
                try FileContents.write("1", to: group + "/cgroup.freeze")
                let took = try eventually(within: .seconds(1) + Self.margin, "the group to be frozen") {
                    try FileContents.text(of: group + "/cgroup.events").contains("frozen 1")
                }
                print("a program that waits for \(request) was frozen after \(took) (bound 1 s)")
                try FileContents.write("0", to: group + "/cgroup.freeze")
                // The writer still has the document open, so the document's contents are preserved before the waiting program
                // overwrites them.
                #expect(try waiter.answer().hasPrefix("ok"))
                let status = try mount.status()
                #expect(status.counters.interrupted == 0)
                checkForcedSteps(status, except: [.proceeded])
            }
        }

        @Test(
            "Before the machine sleeps all waits end, with the results that the policy prescribes",
            arguments: ["proceed", "fail"])
        func allWaitsEndBeforeTheMachineSleeps(policy: String) throws {
            guard try Lab.dataPath == .passthrough else { return print("shown by the run with passthrough") }
            let bus = try Bus()
            defer { bus.end() }
            let options = "wait=60s,hold=60s,idle=60s,policy=\(policy)"
            try Self.withWaiter(options, "truncate", ["DBUS_SYSTEM_BUS_ADDRESS": bus.address]) {
                mount, waiter in
                try bus.await("ready\nlocked sleep delay\n")
                let reader = try ScriptedProcess()
                try reader.tell("read", mount.path + "/document")
                try mount.waitUntilParked(reader.pid)
                let (_, took) = try timed {
                    try bus.logind.type("sleep\n")
                    try bus.await("ready\nlocked sleep delay\nasleep\n")
                }
                print("no request waited \(took) after the machine was said to sleep (bound 1 s)")
                #expect(took < .seconds(1) + Self.margin)
                #expect(try waiter.answer() == (policy == "proceed" ? "ok" : "EBUSY"))
                #expect(try reader.answer().hasPrefix("ok"))
                // While the system goes to sleep, no further program begins to wait.
                let late = try reader.must("read", mount.path + "/document")
                #expect(late == (policy == "proceed" ? "h" : "held"))
                try bus.logind.type("wake\n")
                try bus.await("ready\nlocked sleep delay\nasleep\nlocked sleep delay\n")
                try reader.tell("read", mount.path + "/document")
                try mount.waitUntilParked(reader.pid)
                try reader.program.end()
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        /// Makes a mount in which a program has written to a document and has it open. Another program waits to read or
        /// truncate the document.
        private static func withWaiter(
            _ options: String, _ request: String, _ environment: [String: String] = [:],
            _ body: (_ mount: MountedDirectory, _ waiter: ScriptedProcess) throws -> Void
        ) throws {
            let prepare = { (source: String) in try FileContents.write("", to: source + "/document") }
            try MountedDirectory.with(options, environment: environment, prepare: prepare) { mount in
                let document = mount.path + "/document"
                let (holder, waiter) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_WRONLY")
                try holder.must("write", "h", "held")
                try waiter.tell([request, document] + (request == "truncate" ? ["1"] : []))
                try mount.waitUntilParked(waiter.pid)
                try body(mount, waiter)
                try holder.program.end()
            }
        }

        /// The directory of control groups of version 2. Nil if the test cannot make groups.
        private static func controlGroups() throws -> String? {
            guard geteuid() == 0 else { return nil }
            let place = try Program("findmnt").attempt(
                "--noheadings", "--first-only", "--types", "cgroup2", "--output", "TARGET"
            ).text
            guard let place = place.split(separator: "\n").first.map(String.init),
                access(place + "/cgroup.procs", W_OK) == 0
            else { return nil }
            return place
        }

        /// A private D-Bus with a stand-in for logind.
        private struct Bus {
            let address: String
            let logind: RunningProgram
            private let daemon: RunningProgram

            init() throws {
                let directory = try Lab.freshDirectory("bus")
                address = "unix:path=\(directory)/bus"
                try FileContents.write(
                    """
                    <busconfig>
                      <type>system</type>
                      <listen>\(address)</listen>
                      <auth>EXTERNAL</auth>
                      <policy context="default">
                        <allow user="*"/>
                        <allow own="*"/>
                        <allow send_destination="*"/>
                        <allow receive_sender="*"/>
                      </policy>
                    </busconfig>

                    """, to: directory + "/configuration")
                daemon = try Program("dbus-daemon").start(
                    "--config-file=\(directory)/configuration", "--nofork", "--nopidfile")
                let (daemon, bus) = (daemon, directory + "/bus")
                try eventually(within: .seconds(10), "the bus\n\(daemon.errorText)") {
                    access(bus, F_OK) == 0
                }
                logind = try Script("DBUS_SYSTEM_BUS_ADDRESS=$1 exec \"$2\"").start(
                    address, Checkout.path("Tests/Workers/logind"), input: .keyboard)
                try self.await("ready\n")
            }

            func await(_ text: String) throws {
                try eventually(
                    within: .seconds(10), "'\(text)' from logind\n\(logind.text)\(logind.errorText)"
                ) {
                    logind.text == text
                }
            }

            func end() {
                do {
                    try logind.end()
                    try daemon.end()
                } catch { Issue.record(error) }
            }
        }
    }
}
