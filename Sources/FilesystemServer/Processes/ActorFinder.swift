// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Finds the runs to which a process belongs, and the name under which it acts.
///
/// The environment of a process is read only while there is a run, or if the name is needed. Each answer is remembered for
/// the process, because a program does not change its run.
final class ActorFinder: Sendable {
    private struct Variables: Sendable {
        let tokens: [String]
        let actor: String?
        let moment: Instant
    }

    private let registry: RunRegistry
    private let known = Mutex<[ProcessID: Variables]>([:])
    private static let remembered = 256
    /// Whether there is any run. This takes no lock.
    var hasRuns: Bool { !registry.isEmpty }

    /// Whether a run of this program passes all waits.
    func passesWaits(_ party: Party) -> Bool { registry.passesWaits(party) }

    /// How long the variables of a process are remembered. A process that calls execve(2) gets other variables.
    private static let memory = TimeSpan.seconds(1)

    init(_ registry: RunRegistry) { self.registry = registry }

    /// The runs of a process, the innermost first; none if no run exists.
    ///
    /// `ancestors` are those of ``Coordination/Party``, without the processes that stand for runs.
    func runs(of process: ProcessID, user: UInt32, ancestors: [ProcessID]) -> [RunID] {
        if registry.isEmpty { return [] }
        return registry.runs(ofAncestors: [process] + ancestors, user: user) {
            variables(of: process).tokens.map { $0[...] }
        }
    }

    /// The name in the environment of a process; nil if it has none, or if it is no valid name.
    func namedActor(of process: ProcessID) -> String? { variables(of: process).actor }

    private func variables(of process: ProcessID) -> Variables {
        let now = Engine.now
        let found = known.withLock { $0[process] }
        if let found, now.since(found.moment) < Self.memory { return found }
        let values = ProcessInspection.environment(
            ofProcess: process.number, [RunID.variable, ActorName.variable])
        let tokens = (values[0] ?? []).split(separator: UInt8(ascii: ":")).prefix(16)
        let actor = values[1].flatMap { String(validating: $0, as: UTF8.self) }
        let variables = Variables(
            tokens: tokens.map { String(decoding: $0, as: UTF8.self) },
            actor: actor.flatMap { ActorName.isValid($0) ? $0 : nil }, moment: now)
        known.withLock { known in
            if known.count >= Self.remembered { known = [:] }
            known[process] = variables
        }
        return variables
    }
}

extension ProcessResolver {
    /// Returns the name under which a process acts: its innermost run, or the name in its environment. Returns nil if it has
    /// none, or if the process has ended.
    ///
    /// Without a run, this reads the environment of the process at most once a second. The caller uses this only for display
    /// and for anchors: a name from the environment exempts no process from any claim.
    func actor(of process: ProcessID) -> ActorName? {
        let party = party(ofProcess: process.number)
        guard let found = party.process, found == process, let user = party.user else { return nil }
        if let run = party.run { return ActorName(.run, run.name, number: run.number, user: user) }
        return actors.namedActor(of: process).map { ActorName(.actor, $0, user: user) }
    }

    /// Returns the name under which a thread's process acts; see ``actor(of:)``.
    func actor(ofThread thread: Int32) -> ActorName? {
        let party = currentParty(ofThread: thread)
        guard let process = party.process else { return nil }
        return actor(of: process)
    }
}
