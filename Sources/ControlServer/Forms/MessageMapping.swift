// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// Converts the engine's messages and failures to the forms of the protocol.
extension CauseForm {
    init(_ cause: Cause) {
        self.init(
            pid: cause.party.shownProcess, program: cause.party.program, user: cause.party.user,
            operation: cause.access.name, isOutOfBand: cause.party.isOutOfBand)
    }
}

extension ProcessDescriptionForm {
    /// The process as text for users, for example `cat (712)`.
    var shown: String {
        pid == 0 ? "an unknown program" : "\(program.isEmpty ? "a program" : program) (\(pid))"
    }
}

extension ProtocolFailure {
    init(_ error: any Error) {
        switch error {
        case let failure as ProtocolFailure: self = failure
        case let failure as VersionAccessFailure: self = failure.failure
        default: self = .internalError("\(error)")
        }
    }

    init(_ fault: FramingFault) {
        switch fault {
        case .oversized(let limit): self = .invalidRequest("a message may have at most \(limit) bytes")
        case .malformedHeader: self = .invalidRequest("the header has no Content-Length")
        }
    }

    static let peerIsGone = denied("the process that opened this connection is gone")

    /// The failure of a request by a client with a process that the daemon cannot watch. Such a client can neither register a
    /// presenter nor begin an access.
    static func unwatched(_ error: any Error) -> ProtocolFailure {
        let isGone = error as? Errno == Errno.noProcess
        return isGone ? .peerIsGone : .internalError("your process cannot be watched: \(error)")
    }

    init(_ failure: LookupFailure, _ path: PathForm) {
        let shown = path.path.excerpt
        switch failure {
        case .notFound:
            self = .notFound("'\(shown)' does not exist, and nor does the directory it would be in")
        case .denied:
            self = .denied(
                "'\(shown)' leads through a symbolic link or Truce's own directory; resolve links first")
        case .system(let number):
            let error = Errno(rawValue: number)
            let sentence = "'\(shown)' cannot be reached: \(error)"
            // A user without the right to search the directory must not learn whether the file exists. In this case the failure
            // is `denied` even if the file does not exist.
            self = error == .noAccess ? .denied(sentence) : .notFound(sentence)
        }
    }

    init(_ failure: MoveFailure, _ move: MoveParameters) {
        let (path, newPath) = (move.path.path.excerpt, move.newPath.path.excerpt)
        switch failure {
        case .unreachable(let failure): self = ProtocolFailure(failure, move.newPath)
        case .missing: self = .notFound("nothing is at '\(newPath)'; move it first")
        case .notMoved:
            self = .invalidParameters("'\(path)' is still there, so it did not move to '\(newPath)'")
        }
    }

    /// The failure of an access that waited too long. Its message lists the claims or presenters that the access waited for,
    /// directly and indirectly.
    static func timedOut(_ explanation: Explanation) -> ProtocolFailure {
        let why = explanation.sentences
        return .timedOut(
            why.isEmpty ? "timed out waiting" : "timed out waiting: " + why.joined(separator: "; "),
            waitingFor: distinct(explanation.actors))
    }

    /// The failure of an access that was refused to end a deadlock. Its message says which claims wait for each other.
    static func deadlock(_ explanation: Explanation) -> ProtocolFailure {
        let cycle = explanation.sentences
        return .deadlock(
            cycle.isEmpty ? "deadlock" : "deadlock: " + cycle.joined(separator: "; "),
            among: distinct(explanation.actors))
    }

    static func refused(by presenters: [ProcessDescription], _ words: String, _ origin: OriginForm?)
        -> ProtocolFailure
    {
        let holders = distinct(presenters)
        let who = holders.first?.shown ?? "a presenter"
        let why = words.isEmpty ? "\(who) refused" : "\(who) refused: \(words)"
        return .refused(why, by: holders, origin: origin)
    }

    /// Returns the processes without duplicates, and at most 16 of them, because users do not read longer lists.
    private static func distinct(_ actors: [ProcessDescription]) -> [ProcessDescriptionForm] {
        var seen: Set<ProcessDescriptionForm> = []
        return Array(actors.map { ProcessDescriptionForm($0) }.filter { seen.insert($0).inserted }.prefix(16))
    }
}
