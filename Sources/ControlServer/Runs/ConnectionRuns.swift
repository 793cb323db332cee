// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix

/// The runs of one connection. They end with the connection, so also with its process. Used only on the event loop.
final class ConnectionRuns {
    private enum RunState {
        /// The run waits for earlier runs. The request with this id is answered when the run begins.
        case waiting(MessageID)
        case begun
        case ending
    }

    private unowned let connection: ClientConnection
    private let services: SharedServices
    private var runs: [UInt64: RunState] = [:]
    private var beginning = 0

    init(of connection: ClientConnection, in services: SharedServices) {
        self.connection = connection
        self.services = services
    }

    /// Whether the client has a request for a run that waits to begin.
    var hasWaitingRuns: Bool {
        beginning > 0
            || runs.values.contains { if case .waiting = $0 { true } else { false } }
    }

    func begin(_ parameters: RunBeginParameters, answering id: MessageID) {
        guard runs.count + beginning < ProtocolLimits.runs else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.runs) runs; end a run first"))
        }
        let isGuest = services.guest(connection.peer) != nil
        guard !isGuest || parameters.write.isEmpty && parameters.read.isEmpty else {
            return connection.answer(
                id, .denied("only user \(services.mount.user) and root may have leases; leave out the globs"))
        }
        guard !isGuest || parameters.uncoordinated != true else {
            return connection.answer(
                id, .denied("only user \(services.mount.user) and root may pass all waits"))
        }
        let token = Self.makeToken()
        let gate = connection.loopGate
        let bound = NIOLoopBound(self, eventLoop: connection.loop)
        beginning += 1
        connection.begin(id)
        connection.onWorkQueue { resources, process throws(ProtocolFailure) in
            try resources.beginRun(parameters, token: token, watching: process) { run in
                gate.run { bound.value.didBegin(run, token) }
            } suspended: { run, reason in
                gate.run { bound.value.tellSuspension(run, reason) }
            }
        } then: { result in
            // While the run waits, its request is not counted among the requests that are being served.
            self.connection.finish()
            self.beginning -= 1
            switch result {
            case .success(let run): self.runs[run.number] = .waiting(id)
            case .failure(let failure): self.connection.answer(id, failure)
            }
            self.begunEarly.removeValue(forKey: token).map { self.didBegin($0, token) }
        }
    }

    /// Runs that began before the event loop knew their numbers, by their tokens.
    private var begunEarly: [String: RunID] = [:]

    private func didBegin(_ run: RunID, _ token: String) {
        guard case .waiting(let id) = runs[run.number] else {
            begunEarly[token] = run
            return
        }
        runs[run.number] = .begun
        connection.reply(id, .success(.beginRun(RunBeginResult(run: run.number, token: token))))
    }

    private func tellSuspension(_ run: UInt64, _ reason: LeaseSuspension) {
        connection.push(
            .runSuspended(RunSuspendedForm(run: run, reason: reason.rawValue, words: reason.words)))
    }

    func end(_ number: UInt64, answering id: MessageID) {
        guard case .begun = runs[number] else {
            return connection.answer(id, .notFound("you have no run \(number)"))
        }
        runs[number] = .ending
        connection.begin(id)
        connection.onWorkQueue(inAnyCase: true) { resources, _ throws(ProtocolFailure) in
            resources.endRun(number)
        } then: { result in
            self.runs[number] = nil
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    /// Withdraws the waiting run of a request. Returns false if no run waits for this request.
    func cancel(_ id: MessageID) -> Bool {
        let found = runs.first { _, state in
            if case .waiting(id) = state { true } else { false }
        }
        guard let number = found?.key else { return false }
        runs[number] = .ending
        connection.reply(id, .failure(.cancelled))
        connection.onWorkQueue(inAnyCase: true) { resources, _ throws(ProtocolFailure) in
            resources.endRun(number)
        } then: { _ in
            self.runs[number] = nil
        }
        return true
    }

    /// Returns 128 random bits as text. A process without the token cannot claim to belong to the run.
    private static func makeToken() -> String {
        var random = SystemRandomNumberGenerator()
        return (0..<2).map { _ in
            let digits = String(random.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
