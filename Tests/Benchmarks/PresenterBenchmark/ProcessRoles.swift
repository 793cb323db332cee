// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// What the processes of the benchmark do. They do the same whether they talk to the daemon of a mount or to the hub.
enum ProcessRoles {
    /// Presents a file, and relinquishes it to each reader. Before each answer, the presenter sleeps for `delay` microseconds.
    static func present(_ path: String, on socket: String, delay: UInt32) throws {
        let wire = try Wire(connectingTo: socket)
        try wire.initialize()
        let parameters = RegisterParameters(path: Array(path.utf8), messages: .relinquishToReader)
        let _: RegisterResult = try wire.call(.register(parameters))
        try say("ready")
        while let message = try wire.next() {
            guard case .question(let id, let question) = try IncomingMessage(decoding: message),
                question.request == .relinquishToReader
            else { complain("a presenter was sent what it does not implement") }
            if delay > 0 {
                usleep(delay)
                // @sleep: the time that a real presenter would need to save before it answers.
            }
            try wire.send(AnswerMessage(to: id))
        }
    }

    /// Reads a file over one of two connections. Each line of input says over which connection, and how many times.
    ///
    /// Prints the nanoseconds of each read, from the request until the reply to the end of the access.
    static func read(_ path: String, coordinatedBy daemon: String, orBarelyBy hub: String) throws {
        let (coordinated, bare) = (try Wire(connectingTo: daemon), try Wire(connectingTo: hub))
        try coordinated.initialize()
        try bare.initialize()
        let intents = [IntentForm(Array(path.utf8), .read())]
        try say("ready")
        while let line = readLine() {
            let words = line.split(separator: " ")
            let count = words.count > 1 ? Int(words[1]) ?? 0 : 0
            let numbers: [UInt64]
            switch words.first {
            case "bare": numbers = try bare.read(intents, times: count)
            case "coordinated": numbers = try coordinated.read(intents, times: count)
            default:
                let status: StatusForm = try coordinated.call(.status)
                numbers = [status.counters.asked]
            }
            try say(numbers.map { "\($0)" }.joined(separator: " "))
        }
    }
}

extension Wire {
    fileprivate func read(_ intents: [IntentForm], times: Int) throws -> [UInt64] {
        var took: [UInt64] = []
        took.reserveCapacity(times)
        for _ in 0..<times {
            let began = MonotonicClock.nanoseconds
            let access: AccessBeginResult = try call(.beginAccess(AccessBeginParameters(intents)))
            let _: EmptyResult = try call(.endAccess(AccessEndParameters(access: access.access)))
            took.append(MonotonicClock.nanoseconds - began)
        }
        return took
    }
}
