// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Finds the anchors of processes that open remembered documents (D223, D227). Each process is identified once.
final class OpenerTable: Sendable {
    private struct Known {
        let process: ProcessID
        let opener: Opener
        /// The program, if it is a relay. A relay may execute another program, which is an anchor of its own.
        let relay: [UInt8]?
        /// The time of the last check that the number still belongs to this process.
        var confirmed: Instant
    }

    /// For this time, the number of a process is trusted without a check.
    private static let memory = TimeSpan.milliseconds(100)
    private static let capacity = 4096
    private static let mostAncestors = 64

    private let processes: ProcessResolver
    private let known = Mutex<[Int32: Known]>([:])

    init(_ processes: ProcessResolver) { self.processes = processes }

    /// Returns the opener that a process is. Returns nil if the process has ended, or if it began after `moment`.
    func opener(process number: Int32, notAfter moment: Instant? = nil) -> Opener? {
        guard number > 0 else { return nil }
        let now = Engine.now
        if let found = known.withLock({ $0[number] }),
            found.relay.map({ ProcessInspection.program(ofThread: number) == $0 }) ?? true
        {
            if moment == nil, now.since(found.confirmed) < Self.memory { return found.opener }
            if processes.processID(of: number) == found.process,
                moment.map({ ProcessInspection.hadStarted(found.process.started, at: $0.nanoseconds) })
                    ?? true
            {
                known.withLock { $0[number]?.confirmed = now }
                return found.opener
            }
        }
        guard ProcessInspection.exists(number), let process = processes.identify(number),
            moment.map({ ProcessInspection.hadStarted(process.id.started, at: $0.nanoseconds) }) ?? true
        else { return nil }
        let (anchor, isRelay) = processes.anchor(of: process)
        let opener = Opener(anchor, isAnchor: (anchor.process ?? process.id) == process.id && !isRelay)
        known.withLock { known in
            if known.count >= Self.capacity { known = [:] }
            known[number] = Known(
                process: process.id, opener: opener, relay: isRelay ? process.status.program : nil,
                confirmed: now)
        }
        return opener
    }
}

/// A process with its status, as it was read from `/proc`.
struct IdentifiedProcess {
    let id: ProcessID
    let user: UInt32
    let status: ProcessInspection.ProcessStatus
}

extension ProcessResolver {
    /// Returns the anchor of a process, and whether the process is a relay: a program that reads or writes for the program that
    /// has started it.
    ///
    /// The anchor is the process itself, or its nearest ancestor that is no relay. The search ends at the leader of a session with
    /// a terminal, and at a service manager. A shell that runs a script is an anchor.
    func anchor(of process: IdentifiedProcess) -> (anchor: Anchor, isRelay: Bool) {
        let isRelay = programs.isRelay(process.status.program)
        var found = process
        for _ in 0..<Self.mostRelays where isMereRelay(found) {
            guard let parent = parent(of: found) else { break }
            found = parent
        }
        let program = found.status.program
        // A run, or a name in the environment, stands for all processes that have it.
        let identity = actor(of: process.id).map { Anchor.Identity.named($0) }
        return (
            Anchor(
                identity ?? .process(found.id), program: program, user: found.user,
                readsToBackUp: programs.readsToBackUp(program),
                isBackground: programs.programClass(of: program) == .background),
            isRelay
        )
    }

    private static let mostRelays = 64

    /// Whether a process reads and writes only for its parent.
    private func isMereRelay(_ process: IdentifiedProcess) -> Bool {
        let (status, number) = (process.status, process.id.number)
        guard programs.isRelay(status.program), status.session != number || status.terminal == 0 else {
            return false
        }
        guard programs.isShell(status.program), ShellCommand.runsScript(process: number) else { return true }
        // A part of the script that runs as a process of its own has the same command line, until it executes a program.
        return ProcessInspection.commandLineHash(ofProcess: number)
            == ProcessInspection.commandLineHash(ofProcess: status.parent)
    }

    private func parent(of process: IdentifiedProcess) -> IdentifiedProcess? {
        let number = process.status.parent
        guard number > 1, let parent = identify(number, isCounted: false),
            !programs.adoptsOrphans(parent.status.program),
            !ProcessInspection.isInit(number)
        else { return nil }
        return parent
    }
}

/// The command line of a shell.
package enum ShellCommand {
    /// Options of shells that are followed by a word of their own.
    private static let optionsWithWord: Set<String> = ["--rcfile", "--init-file"]

    /// Returns whether the shell runs the commands of a file.
    static func runsScript(process: Int32) -> Bool {
        runsScript(ProcessInspection.commandLine(ofProcess: process))
    }

    /// Returns whether a shell with these words runs the commands of a file, and not those of a word or of its input.
    package static func runsScript(_ words: [[UInt8]]) -> Bool {
        var isSkipped = false
        for word in words.dropFirst() {
            let text = String(decoding: word, as: UTF8.self)
            if isSkipped {
                isSkipped = false
            } else if text.hasPrefix("--"), text.count > 2 {
                isSkipped = optionsWithWord.contains(text)
            } else if text == "--" || text == "-" {
                continue
            } else if text.hasPrefix("-") || text.hasPrefix("+") {
                if text.contains("c") || text.contains("s") { return false }
                isSkipped = text.hasSuffix("o") || text.hasSuffix("O")
            } else {
                return !text.isEmpty
            }
        }
        return false
    }
}
