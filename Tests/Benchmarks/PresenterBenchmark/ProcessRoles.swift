// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// The processes that exchange messages. They do the same with the daemon of a mount and with the hub.
enum ProcessRoles {
    /// Presents a file, and relinquishes it to each reader. `delay` is the time that the presenter takes for that, in
    /// microseconds.
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
                // @sleep: stands for the work of a presenter that must save first.
            }
            try wire.send(AnswerMessage(to: id))
        }
    }

    /// Reads a file over one of two connections, as often as a line on its input says.
    ///
    /// Prints the nanoseconds of each read, from the request to the reply to the end of the access.
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
