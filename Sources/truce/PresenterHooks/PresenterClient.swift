// SPDX-License-Identifier: Apache-2.0
package import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// A registered presenter. It receives messages from the daemon, runs a command for each, and sends the answers.
///
/// Commands run one after the other, in the order of the messages. For example, the command for a reacquire runs only
/// after the command for the relinquishment. If the time for an answer is over before the command starts, the answer is
/// an error, and the command does not run.
///
/// There is one exception. While the command for a notice runs, a question to relinquish is answered before its command
/// runs. The command for the notice may itself be waiting for the access that caused the question. The command for the
/// question runs later, in its turn.
package final class PresenterClient {
    /// The most commands that wait to run. When there are so many, the client reads no more messages, and at last the
    /// server closes the connection.
    private static let longestQueue = 1024
    private static let endingSignals = [SIGINT, SIGTERM, SIGHUP]

    private let mounted: MountedPath
    private let hooks: PresenterHooks
    private let isPrinting: Bool
    private let presenter: UInt64
    private let signals: SignalDescriptor
    private var wire: ControlWire
    private var queue: [HookInvocation] = []
    private var running: HookProcess?
    private var unsaved: UnsavedWatch?

    package init(
        of mounted: MountedPath, over connection: consuming ControlWire, running hooks: PresenterHooks,
        printing isPrinting: Bool, savedBy server: Int32? = nil,
        watching unsaved: String? = nil
    ) throws {
        var wire = connection
        let messages = hooks.messages.isEmpty ? PresenterMessages.all : hooks.messages
        let result: RegisterResult = try wire.call(
            .register(
                RegisterParameters(
                    path: mounted.pathInMount, messages: messages,
                    savedBy: server.map { ProcessForm(pid: $0) })))
        signals = try SignalDescriptor(Self.endingSignals)
        presenter = result.presenter
        self.mounted = mounted
        self.hooks = hooks
        self.isPrinting = isPrinting
        self.wire = wire
        self.unsaved = unsaved.map { UnsavedWatch(command: $0, of: mounted) }
    }

    /// Handles messages until a signal asks the program to end. Throws if the connection ends before that.
    package func run() throws {
        do {
            while try step() {}
        } catch {
            try unsaved?.end()
            _ = try endRunning()
            throw error
        }
        try unsaved?.end()
        // When a presenter is removed, the daemon takes an unanswered question as agreed. So the running command's
        // answer is sent before the removal.
        if let ended = try endRunning() { try answer(ended.invocation, ended.failure) }
        let _: EmptyResult = try wire.call(.remove(RemoveParameters(presenter: presenter)))
    }

    /// Ends the running command. Returns the command and its failure, unless its answer was already sent.
    ///
    /// A command that answers a question may be in the middle of a save. So it may use the rest of its time, unless a
    /// second signal comes.
    private func endRunning() throws -> (invocation: HookInvocation, failure: String?)? {
        guard let hook = running else { return nil }
        running = nil
        // Reads the signal that has ended the loop. Otherwise the next wait would return because of this signal.
        while signals.next() != nil {}
        if hook.invocation.id != nil, let watched = hook.descriptor {
            let ready = try Readiness.wait(for: [watched, signals.rawValue], until: hook.invocation.deadline)
            if ready.contains(watched) { return (hook.invocation, try hook.failure()) }
        }
        let wasAnswered = hook.isTerminated
        try hook.endNow()
        return wasAnswered ? nil : (hook.invocation, "was ended, since 'truce present' was")
    }

    /// Waits for the next event and handles it. Returns false if a signal asks the program to end.
    private func step() throws -> Bool {
        // The reply to the registration may have come together with the first messages. So there may be messages to
        // handle before the first wait.
        try takeMessages()
        try startNext()
        try answerRelinquishmentsEarly()
        try unsaved?.ask()
        let ready = try Readiness.wait(for: descriptors, until: nextDeadline)
        if ready.contains(signals.rawValue) { return false }
        if let hook = running?.descriptor, ready.contains(hook) { try finishRunning() }
        if let watched = unsaved?.descriptor, ready.contains(watched) { try noteUnsaved() }
        if ready.contains(wire.rawValue) { try receive() }
        try enforceDeadlines()
        return true
    }

    private var descriptors: [CInt] {
        [signals.rawValue] + (queue.count < Self.longestQueue ? [wire.rawValue] : [])
            + [running?.descriptor, unsaved?.descriptor].compactMap { $0 }
    }

    private var nextDeadline: UInt64? {
        (queue.map(\.deadline) + [running?.nextDeadline, unsaved?.nextDeadline]).compactMap { $0 }.min()
    }

    private func noteUnsaved() throws {
        if let isUnsaved = try unsaved?.takeChange() { try tellUnsaved(isUnsaved) }
    }

    private func tellUnsaved(_ isUnsaved: Bool) throws {
        do {
            let parameters = UnsavedParameters(presenter: presenter, isUnsaved: isUnsaved)
            try wire.send(NotificationMessage(.unsaved(parameters)))
        } catch is Errno {
            throw try endOfConnection()
        }
    }

    private func receive() throws(CommandFailure) {
        do throws(Errno) {
            guard try wire.receive() else { throw .notConnected }
        } catch {
            throw try endOfConnection()
        }
    }

    /// Sends an answer. If the daemon has ended, throws the error that also a read of a message would throw.
    private func send(_ answer: AnswerMessage) throws {
        do {
            try wire.send(answer)
        } catch is Errno {
            throw try endOfConnection()
        }
    }

    private func endOfConnection() throws(CommandFailure) -> CommandFailure {
        let place = mounted.mount.mountpoint.printable
        guard try MountFinder.table().entry(id: mounted.mount.id) != nil else {
            return CommandFailure(.failed, "the mount at '\(place)' is gone")
        }
        return CommandFailure(.failed, "the daemon of '\(place)' has closed the connection")
    }

    private func takeMessages() throws {
        while queue.count < Self.longestQueue, let message = try wire.next() {
            if isPrinting { LineOutput.writeExactly(line: message, to: STDOUT_FILENO) }
            switch try IncomingMessage(decoding: message) {
            case .question(let id, let question):
                if let command = hooks.command(for: PresenterMessages(question.request)) {
                    queue.append(HookInvocation(question, id, command, in: mounted))
                } else {
                    try send(AnswerMessage(to: id))
                }
            case .noticeMessage(let noticeMessage):
                if let command = hooks.command(for: PresenterMessages(noticeMessage.notice)) {
                    queue.append(HookInvocation(noticeMessage, command, in: mounted))
                }
            case .unknown(let method, let id?):
                try send(AnswerMessage(to: id, failure: .unknownMethod(method)))
            case .unknown(_, nil), .response, .event, .runSuspended: break
            }
        }
    }

    private func startNext() throws {
        while running == nil, !queue.isEmpty {
            let invocation = queue.removeFirst()
            do throws(Errno) {
                running = try HookProcess(invocation, outputTo: isPrinting ? STDERR_FILENO : STDOUT_FILENO)
            } catch {
                try answer(invocation, "cannot be run: \(error)")
            }
        }
    }

    private func answerRelinquishmentsEarly() throws {
        guard running?.invocation.isForEvent ?? false else { return }
        for index in queue.indices {
            if let id = queue[index].takeEarlyAnswer() { try send(AnswerMessage(to: id)) }
        }
    }

    private func finishRunning() throws {
        guard let hook = running else { return }
        running = nil
        let failure = try hook.failure()
        // The daemon is told that the file is saved before the other programs go on. If the file changes later, the
        // next `--unsaved` command finds that.
        if hook.invocation.isSave, failure == nil, unsaved?.noteSaved() ?? false { try tellUnsaved(false) }
        try answer(hook.invocation, failure)
    }

    private func enforceDeadlines() throws {
        let now = MonotonicClock.nanoseconds
        if let hook = running, let moment = hook.nextDeadline, moment <= now {
            if hook.isTerminated {
                try hook.finish()
                running = nil
            } else {
                hook.terminate()
                try answer(hook.invocation, "did not end in time")
            }
        }
        try unsaved?.enforceDeadline(now)
        for invocation in queue where invocation.isOverdue(now) {
            try answer(invocation, "could not begin in time: another command was still running")
        }
        queue.removeAll { $0.isOverdue(now) }
    }

    private func answer(_ invocation: HookInvocation, _ failure: String?) throws {
        let sentence = failure.map { "the command for '\(invocation.message)' \($0)" }
        if let sentence { LineOutput.say("truce: \(sentence)", to: STDERR_FILENO) }
        guard let id = invocation.id else { return }
        try send(AnswerMessage(to: id, failure: sentence.map { ProtocolFailure(code: -32000, message: $0) }))
    }
}

extension HookInvocation {
    fileprivate func isOverdue(_ now: UInt64) -> Bool { deadline.map { $0 <= now } ?? false }
}
