// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// A program that changes files, as the history names it. Steps of one process share one object.
final class Author: Sendable {
    let program: [UInt8]
    let process: Int32
    /// The innermost run to which the process belongs; nil if it belongs to none.
    let run: RunID?
    /// The name of the run, or the name that the environment of the process has in `TRUCE_ACTOR`.
    let actor: String?
    /// Whether the run passes all waits: `truce run --uncoordinated`.
    let passesWaits: Bool

    init(
        program: [UInt8], process: Int32, run: RunID? = nil, actor: String? = nil, passesWaits: Bool = false
    ) {
        self.passesWaits = passesWaits
        self.program = program
        self.process = process
        self.run = run
        self.actor = run?.name ?? actor
    }
}

/// The programs that have changed files last, by their threads.
///
/// A program is identified while it makes a request, because it can end right after that. The answer is remembered for a short
/// time, so that a program that changes many files is identified only now and then.
final class AuthorTable: Sendable {
    private struct Slot {
        var thread: Int32 = 0
        var moment = Instant(nanoseconds: 0)
        var author: Author?
    }

    private static let memory = TimeSpan.milliseconds(100)
    private static let slots = 64
    /// The index of a thread is given by the last bits of its number.
    private let known = Mutex([Slot](repeating: Slot(), count: AuthorTable.slots))

    func find(_ thread: Int32, at now: Instant) -> Author? {
        known.withLock { known in
            let slot = Int(thread) & (Self.slots - 1)
            guard known[slot].thread == thread, now.since(known[slot].moment) < Self.memory else {
                return nil
            }
            return known[slot].author
        }
    }

    func note(_ author: Author, of thread: Int32, at now: Instant) {
        let former = known.withLock { known in
            let slot = Int(thread) & (Self.slots - 1)
            defer { known[slot] = Slot(thread: thread, moment: now, author: author) }
            return known[slot].author
        }
        withExtendedLifetime(former) {}
    }
}

extension ProcessResolver {
    /// Returns the program of a thread that makes a request now. Returns nil for a thread of the kernel or of another pid
    /// namespace.
    func author(ofThread thread: Int32, at now: Instant = Engine.now) -> Author? {
        guard thread > 0 else { return nil }
        if let known = authors.find(thread, at: now) { return known }
        let process = process(ofOpener: thread)
        guard process > 0 else { return nil }
        let party = actors.hasRuns ? currentParty(ofThread: thread) : nil
        let run = party?.run
        let name = run == nil ? processID(of: process).flatMap { actors.namedActor(of: $0) } : nil
        let author = Author(
            program: ProcessInspection.program(ofThread: process) ?? [], process: process, run: run,
            actor: name, passesWaits: party.map { actors.passesWaits($0) } ?? false)
        authors.note(author, of: thread, at: now)
        return author
    }
}
