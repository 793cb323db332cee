// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The programs that have opened a file, as far as they are noted without a system call: two readers and the last writer. If
/// more than two programs that have read the file still run, they are noted, too.
///
///     unknown ──the table has no such file──▶ unremembered ──a second program meets a writer──▶ remembered
///        └──────────────the table has the file──────────────────────────────────────────────────────▲
///
/// While one program works alone, only these notes are made, under a lock that the open takes anyway. As soon as a program
/// meets the notes of another program, and one of the two writes, the ``SightingTable`` remembers the file.
package struct NodeSightings {
    package enum Phase: UInt8, Sendable {
        /// The node is new. An earlier node of the same file may be remembered in the table.
        case unknown
        case unremembered
        /// The table has the file, so nothing is noted here.
        case remembered
    }

    /// A process that has opened the file.
    package struct Note: Hashable, Sendable {
        /// The number of the process; 0 means that there is no note.
        package var process: Int32 = 0
        /// The time of the open, see ``moment(of:)``.
        package var moment: UInt32 = 0

        package init() {}
        package init(_ process: Int32, at moment: UInt32) { (self.process, self.moment) = (process, moment) }

        fileprivate func isOther(than other: Int32) -> Bool { process != 0 && process != other }
    }

    /// How an open uses the file.
    package enum Use: Sendable {
        case reads, writes, readsAndWrites
    }

    package enum Outcome: Sendable {
        /// No other program is concerned, so nothing more need be done.
        case alone
        /// Two or more other programs are noted as readers. Some of them may have ended.
        case crowded
        /// The table must be asked, because another program is concerned, or because the table may have the file.
        case concerned
    }

    /// The most readers that are noted.
    package static let mostReaders = 16
    /// A note of a writer counts for this time.
    package static let memory = TimeSpan.seconds(24 * 60 * 60)

    package private(set) var writer = Note()
    private var first = Note()
    private var second = Note()
    /// The readers after the first two. This is empty unless three programs that have read the file run at the same time.
    private var more: [Note] = []
    package private(set) var phase = Phase.unknown

    package init() {}

    /// The programs that are noted as readers.
    package var readers: [Note] { ([first, second] + more).filter { $0.process != 0 } }

    /// The processes that are noted.
    package var processes: Set<Int32> { Set((readers + [writer]).map(\.process)).subtracting([0]) }

    /// Returns the unit in which notes have their time: 2²⁴ ns, about 17 ms.
    package static func moment(of instant: Instant) -> UInt32 {
        UInt32(truncatingIfNeeded: instant.nanoseconds >> 24)
    }

    /// Returns the moment at the end of the unit in which a note was made.
    package static func instant(of moment: UInt32) -> Instant {
        Instant(nanoseconds: (UInt64(moment) + 1) << 24)
    }

    /// Notes an open. `isTableEmpty` says whether the table has no file at all.
    @inline(__always)
    package mutating func note(
        _ process: Int32, at moment: UInt32, _ use: Use, isTableEmpty: Bool
    ) -> Outcome {
        if phase != .unremembered {
            guard phase == .unknown, isTableEmpty else { return .concerned }
            phase = .unremembered
        }
        if writer.isOther(than: process), isRecent(writer, at: moment) { return .concerned }
        if use != .reads {
            if first.isOther(than: process) || second.isOther(than: process) { return .concerned }
            writer = Note(process, at: moment)
        }
        if use == .writes || first.process == process || second.process == process { return .alone }
        if first.process == 0 {
            first = Note(process, at: moment)
        } else if second.process == 0 {
            second = Note(process, at: moment)
        } else if !more.contains(where: { $0.process == process }) {
            return .crowded
        }
        return .alone
    }

    package var hasNotes: Bool { phase == .unremembered && (writer.process != 0 || first.process != 0) }

    /// Returns whether a program that is about to replace or remove the file meets another program.
    package func concerns(_ process: Int32, at moment: UInt32, isTableEmpty: Bool) -> Bool {
        switch phase {
        case .unknown: !isTableEmpty
        case .remembered: true
        case .unremembered:
            first.isOther(than: process) || second.isOther(than: process)
                || writer.isOther(than: process) && isRecent(writer, at: moment)
        }
    }

    /// The processes besides this one that are noted.
    package func others(than process: Int32) -> [Int32] {
        ([first, second, writer] + more).filter { $0.isOther(than: process) }.map(\.process)
    }

    /// Forgets all notes, because none of the noted processes runs any more.
    package mutating func forgetNotes() {
        guard phase == .unremembered else { return }
        self = NodeSightings()
        phase = .unremembered
    }

    /// Adds the note of a new reader, and drops the notes of ended processes. If there are too many readers, the latest one is
    /// dropped.
    ///
    /// An editor opens a file once and stays, whereas search programs come and go.
    package mutating func replaceReader(by note: Note, ended: (Note) -> Bool) {
        var living = readers.filter { !ended($0) }
        if living.count >= Self.mostReaders { living.removeLast() }
        living.append(note)
        first = living[0]
        second = living.count > 1 ? living[1] : Note()
        more = Array(living.dropFirst(2))
    }

    package mutating func becomeKnown(isRemembered: Bool) {
        if isRemembered {
            self = NodeSightings()
            phase = .remembered
        } else if phase != .unremembered {
            phase = .unremembered
        }
    }

    private func isRecent(_ note: Note, at moment: UInt32) -> Bool {
        UInt64(moment &- note.moment) < Self.memory.nanoseconds >> 24
    }
}
