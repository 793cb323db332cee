// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import Glibc
import LinuxSystem

struct MountCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "mount",
            abstract: "Mounts a folder, so that the programs that use it take turns.",
            discussion: """
                Options for -o, separated by commas: wait=, hold=, hold-aware=, idle=, lockwait=, \
                relinquish=, save=, deletion=, ask-again=, ask-again-stat=, guest-delay= (times such as 15s or 250ms), keep-room=, keep-share=, keep-age=, keep-certain=, keep-versions= (limits of versions), policy=proceed|fail, data=auto|daemon, allow_other, ro, nosuid, \
                nodev, noexec.
                """)
    }

    @Flag(name: .customShort("f"), help: "Stay in the foreground and log to standard error.")
    var foreground = false

    @Flag(name: .customShort("d"), help: "Like -f, and say more.")
    var debug = false

    @Option(
        name: .customShort("o"),
        help: ArgumentHelp("Mount options, separated by commas; may be repeated.", valueName: "options"))
    var options: [String] = []

    @Argument(help: "The folder with the files.", completion: .directory)
    var source: String

    @Argument(help: "Where it is mounted; over the folder itself if left out.", completion: .directory)
    var mountpoint: String?

    func run() throws {
        let plan = try MountPlan.make(
            source: source, mountpoint: mountpoint, options: MountOptions(parsing: options))
        if foreground || debug {
            try serveHere(plan)
        } else {
            try DaemonLaunch(of: plan).run()
        }
    }

    private func serveHere(_ plan: consuming MountPlan) throws {
        let (target, isVerbose) = (plan.target, debug)
        let log = SystemLog.standardError()
        let daemon = DaemonProcess(mounting: target, log: log)
        let inside = try DeadMountReplacement.mounts(inOneReplacedBy: target)
        try daemon.run(source: plan.source, lock: plan.lock) {
            if target.replacesDeadMount { DeadMountReplacement.say(target.mountpoint, with: inside) }
            LineOutput.say(target.readyLine(pid: getpid()), to: STDOUT_FILENO)
            if isVerbose { log.write("options: \(target.options.words.joined(separator: ","))") }
        }
    }
}
