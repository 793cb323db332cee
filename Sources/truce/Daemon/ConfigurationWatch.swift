// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import FilesystemServer
import LinuxSystem
import Synchronization

/// Looks for changes of a mount's configuration files, and gives the mount their rules (D239).
final class ConfigurationWatch: SettingSource {
    /// The time between two looks at files for which events do not come.
    private static let interval = TimeSpan.seconds(2)
    /// The time from an event to the look at the files. One save makes several events. In a busy directory, the thread wakes
    /// only once in this time.
    private static let pause = TimeSpan.milliseconds(100)
    /// The least time between two changes of the rules. Any user that may write in the root of a source can change a file there,
    /// and each change makes a line in the log.
    private static let leastPause = TimeSpan.seconds(1)

    private let files: Mutex<RuleFiles>
    /// Nil if inotify(7) cannot be used.
    private let events: FileWatch?
    private let mount: FilesystemServer.Mount
    private let log: @Sendable (String) -> Void
    /// Never raised: the thread ends with the process.
    private let pauseEnd: WakeEvent

    init(
        of files: RuleFiles, for mount: FilesystemServer.Mount, log: @escaping @Sendable (String) -> Void
    ) throws(Errno) {
        do throws(Errno) {
            events = try files.watch()
        } catch {
            events = nil
            log(
                "the configuration files are looked at every two seconds, because inotify cannot be used (\(error))"
            )
        }
        self.files = Mutex(files)
        self.mount = mount
        self.log = log
        pauseEnd = try WakeEvent()
    }

    /// Starts the thread that waits for changes of the files. It may wait for the files' file systems without limit.
    func start() throws(Errno) {
        try JoinableThread { [self] in
            while true { lookAndSleep() }
        }.detach()
    }

    /// Looks at the files, and then sleeps until one of them may have changed.
    ///
    /// This is not inlined into the endless loop: the optimiser of Swift 6.3 does not end for this loop otherwise.
    @inline(never)
    private func lookAndSleep() {
        // The directories are watched before the look, so that each later change makes an event.
        let coverage = events?.renew() ?? .partial
        let lines = files.withLock { refresh(&$0) }
        say(lines)
        if !lines.isEmpty { pauseEnd.wait(until: (Engine.now + Self.leastPause).nanoseconds) }
        sleepUntilChange(coverage)
    }

    /// Sleeps until one of the files may have changed.
    @inline(never)
    private func sleepUntilChange(_ coverage: FileWatch.Coverage) {
        let end = coverage == .partial ? (Engine.now + Self.interval).nanoseconds : nil
        guard let events else { return pauseEnd.wait(until: end) }
        while end.map({ $0 > Engine.now.nanoseconds }) ?? true {
            events.wait(until: end)
            pauseEnd.wait(until: (Engine.now + Self.pause).nanoseconds)
            if events.takeChanges() { return }
        }
    }

    /// Reads the changed files. Returns a sentence for each file with other rules.
    ///
    /// The caller holds the lock of the files, so that earlier rules never replace later ones.
    private func refresh(_ files: inout RuleFiles) -> [String] {
        let lines = files.refresh()
        guard !lines.isEmpty else { return [] }
        let rules = files.rules
        mount.replaceRules(programs: rules.programs, paths: rules.paths, report: rules.report)
        return lines
    }

    private func say(_ lines: [String]) { for line in lines { log(line) } }

    func settings(forFileAt path: [UInt8]) -> SettingsResult {
        // If the thread is looking at the files just now, the answer does not wait for their file systems.
        say(files.withLockIfAvailable { refresh(&$0) } ?? [])
        let rules = mount.rules(forFileAt: path)
        let settings = PolicyTable.standards(forFileAt: path, under: mount.engine.bounds).flatMap {
            standard in
            let own = rules.filter { $0.setting.kind == standard.kind }
            let isDecided = own.contains { $0.programs == nil }
            return own.map(SettingForm.init)
                + (isDecided ? [] : [SettingForm(name: standard.kind.rawValue, value: standard.value)])
        }
        return SettingsResult(settings: settings)
    }
}

extension SettingForm {
    fileprivate init(_ rule: PathRule) {
        self.init(
            name: rule.setting.kind.rawValue, value: rule.setting.value,
            programs: rule.programs?.map(\.rawValue),
            pattern: rule.pattern.text, file: rule.file, line: rule.line)
    }
}

extension Rules {
    /// The rules in the form that the daemon shows to people and sends over the control socket.
    var report: RulesReport {
        var report = RulesReport()
        report.files = sources.map { RulesReport.File(path: $0.path, problem: $0.problemText) }
        report.programs = sources.flatMap { source in
            source.programs.map { RulesReport.Program(rule: $0, source: source.path) }
        }
        return report
    }
}
