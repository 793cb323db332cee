// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

// Cases in which a file system below the mount does not answer at the moment when a claim on one of its files is granted.
extension MountTests.HungFilesystemTests {
    @Test(
        "An open that hangs after its grant does not delay questions to other presenters"
    )
    func anOpenThatHangsAfterItsGrantDelaysNoQuestionToAnotherPresenter() throws {
        guard try Lab.dataPath == .daemon else {
            return print("the kernel opens files below itself: shown by the run with data by the daemon")
        }
        try Self.withSlow { mount, server in
            let presenter = try Self.present(mount, "slow/file")
            let other = try Self.present(mount, "1")
            presenter.send(SIGSTOP)
            let reader = try Self.read(mount, "slow/file", asking: 1)
            try Self.keeping(server, from: mount) {
                presenter.send(SIGCONT)
            } whileKept: {
                let asked = try mount.counters.asked
                let (_, took) = try timed {
                    let cat = try Program("cat").start(mount.path + "/1")
                    _ = try cat.wait(within: .seconds(11), for: "another file, which is presented")
                        .requireSuccess()
                }
                print("another file's presenter was asked, and the file opened, within \(took)")
                #expect(try mount.counters.asked > asked)
            }
            _ = try reader.wait(within: .seconds(20), for: "the end of the delayed program").requireSuccess()
            try presenter.end()
            try other.end()
        }
    }

    @Test("A claim that is granted at its deadline on a hung file system delays no other claim's deadline")
    func aClaimThatIsGrantedOnAHungFileSystemDelaysNoOtherClaimsDeadline() throws {
        guard try Lab.dataPath == .daemon else {
            return print("the kernel opens files below itself: shown by the run with data by the daemon")
        }
        try Self.withSlow("relinquish=1s") { mount, server in
            let presenters = [try Self.present(mount, "slow/file"), try Self.present(mount, "1")]
            for presenter in presenters { presenter.send(SIGSTOP) }
            var reader: RunningProgram?
            try Self.keeping(server, from: mount) {
                // The kernel has looked up the name `slow/file` by now, so the reader's open reaches the daemon.
                kill(server, SIGCONT)
                reader = try Self.read(mount, "slow/file", asking: 1)
                kill(server, SIGSTOP)
            } whileKept: {
                let (_, took) = try timed {
                    let cat = try Program("cat").start(mount.path + "/1")
                    _ = try cat.wait(within: .seconds(11), for: "another deadline of one second")
                        .requireSuccess()
                }
                print("another deadline of 1 s passed within \(took)")
            }
            _ = try reader?.wait(within: .seconds(20), for: "the end of the delayed program").requireSuccess()
            for presenter in presenters {
                presenter.send(SIGCONT)
                try presenter.end()
            }
        }
    }

    @Test(
        "While ten requests hang, requests for other files are answered, and later the extra threads end")
    func tenHungRequestsDelayNoRequestForAnotherFile() throws {
        try Self.withSlow { mount, server in
            let daemon = try mount.daemonPID
            let before = try #require(ProcessStatus(of: daemon)?.threads)
            var kept: [RunningProgram] = []
            // In a directory the kernel sends one look-up at a time, so each hung look-up needs its own directory.
            try Script("stat \"$1\"/slow/in{1..10}").run(mount.path)
            try Self.keeping(server, from: mount) {
                for number in 1...10 {
                    kept.append(try Program("stat").start(mount.path + "/slow/in\(number)/missing"))
                }
            } whileKept: {
                let (_, took) = try timed {
                    let stat = try Program("stat").start(mount.path + "/2")
                    _ = try stat.wait(within: .seconds(11), for: "another file's attributes").requireSuccess()
                }
                print("beside ten requests that were kept, another file's attributes came after \(took)")
            }
            for program in kept {
                _ = try program.wait(within: .seconds(20), for: "the end of the delayed program")
            }
            try eventually(within: .seconds(20), "no more than \(before) threads") {
                try Script("for n in {1..50}; do stat \"$1\"/missing-$n || true; done").run(mount.path)
                return ProcessStatus(of: daemon)?.threads ?? 0 <= before
            }
        }
    }

    @Test(
        "A presenter whose registration hangs in the file system below delays no other registration"
    )
    func aHungRegistrationDelaysNoOtherRegistration() throws {
        try Self.withSlow { mount, server in
            var kept: RunningProgram?
            try Self.keeping(server, from: mount) {
                kept = try TruceCommand.start("present", mount.path + "/slow/missing", "--json")
            } whileKept: {
                try Self.present(mount, "1").end()
            }
            kept?.send(SIGTERM)
            _ = try kept?.wait(within: .seconds(20), for: "the end of the delayed program")
        }
    }

    private static func present(_ mount: MountedDirectory, _ name: String) throws -> RunningProgram {
        let presenter = try TruceCommand.start("present", mount.path + "/" + name, "--json")
        try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
            presenter.errorText.contains("presenting")
        }
        return presenter
    }

    /// Starts a program that reads a file, and waits until the given number of questions has been asked.
    private static func read(
        _ mount: MountedDirectory, _ name: String, asking count: Int
    ) throws -> RunningProgram {
        let reader = try Program("cat").start(mount.path + "/" + name)
        try eventually(within: .seconds(10), "\(count) to be asked") { try mount.counters.asked == count }
        return reader
    }
}
