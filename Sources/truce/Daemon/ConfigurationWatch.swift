// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import FilesystemServer
import LinuxSystem
import Synchronization

/// Looks for changes of a mount's configuration files, and gives the mount their rules.
final class ConfigurationWatch: SettingSource {
    /// The time between two looks at the files.
    ///
    /// The files are looked at and not watched by inotify(7): they may be on a network, their directories may be missing, and
    /// in the root of a source other names change often.
    private static let pause = TimeSpan.seconds(2)

    private let files: Mutex<RuleFiles>
    private let mount: FilesystemServer.Mount
    private let log: @Sendable (String) -> Void
    /// Never raised: the thread ends with the process.
    private let pauseEnd: WakeEvent

    init(
        of files: RuleFiles, for mount: FilesystemServer.Mount, log: @escaping @Sendable (String) -> Void
    ) throws(Errno) {
        self.files = Mutex(files)
        self.mount = mount
        self.log = log
        pauseEnd = try WakeEvent()
    }

    /// Starts the thread that looks at the files. It may wait for the files' file systems without limit.
    func start() throws(Errno) {
        try JoinableThread { [self] in
            while true {
                pauseEnd.wait(until: (Engine.now + Self.pause).nanoseconds)
                look()
            }
        }.detach()
    }

    /// Looks at the files once. Does nothing if another thread is looking at them just now.
    private func look() {
        // The mount gets the rules under the lock, so that earlier rules never replace later ones.
        let lines = files.withLockIfAvailable { [mount] files in
            let lines = files.refresh()
            if !lines.isEmpty {
                let rules = files.rules
                mount.replaceRules(programs: rules.programs, paths: rules.paths, report: rules.report)
            }
            return lines
        }
        for line in lines ?? [] { log(line) }
    }

    func settings(forFileAt path: [UInt8]) -> SettingsResult {
        look()
        let rules = mount.rules(forFileAt: path)
        let settings = PolicyTable.standards(forFileAt: path).flatMap { standard in
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
