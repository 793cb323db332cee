// SPDX-License-Identifier: Apache-2.0

/// One process from its start to its end: the kernel may use a pid again, but not with the same start time.
public struct ProcessID: Hashable, Sendable, CustomStringConvertible {
    /// The thread-group id, which is the pid of the process.
    public let number: Int32
    /// The start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    public let started: UInt64

    public init(number: Int32, started: UInt64) {
        self.number = number
        self.started = started
    }

    public var description: String { "\(number)" }
}

/// The class of a program, which decides how its reads are treated when other programs write.
public enum ProgramClass: String, Hashable, Sendable, CaseIterable {
    case ordinary
    /// Backup, sync and indexing programs: writers do not wait for their reads, and their reads do not ask presenters
    /// to save.
    case background
    /// Compilers in watch mode, language servers and thumbnailers: their reads do not ask presenters to save.
    case watcher
}

/// A name for related accesses over the control socket. Accesses with the same purpose do not wait for each other,
/// even if different processes make them.
public struct Purpose: Hashable, Sendable {
    public let rawValue: String
    public init(_ rawValue: String) { self.rawValue = rawValue }
}

/// The process that makes a claim, with the ancestors that count as the same program.
public struct Party: Hashable, Sendable {
    /// The properties that all threads of a process share.
    private struct Common: Hashable, Sendable {
        let process: ProcessID?
        let ancestors: [ProcessID]
        let programClass: ProgramClass
        var program: [UInt8]
        var user: UInt32?
        var session: Int32
        var terminals: [Int32]
        let run: RunID?
    }

    /// The storage for `Common`. Thousands of claims of one process can share it; see ``shareStorage(with:)``.
    private final class Box: Sendable {
        let common: Common
        init(_ common: Common) { self.common = common }
    }

    private var box: Box
    /// The properties of the partner; nil if there is no partner, or it is not known.
    private var second: Box?
    private var common: Common {
        get { box.common }
        set { box = Box(newValue) }
    }

    /// The process; nil if it is unknown: its thread has ended, it is the kernel, or it is in another pid namespace.
    public var process: ProcessID? { box.common.process }
    /// The ancestors of the process, the parent first, without pid 1 and service managers. The last ancestors stand for the
    /// runs to which the process belongs.
    public var ancestors: [ProcessID] { box.common.ancestors }
    public var programClass: ProgramClass { box.common.programClass }
    /// The name of the program, from `/proc/PID/comm`; empty if Truce did not read it.
    public var program: [UInt8] {
        get { box.common.program }
        set { common.program = newValue }
    }
    public var user: UInt32? {
        get { box.common.user }
        set { common.user = newValue }
    }
    /// The POSIX session id of the process. If the session is not visible, the value is the pid. If Truce did not read
    /// the session, the value is 0.
    public var session: Int32 {
        get { box.common.session }
        set { common.session = newValue }
    }
    /// The controlling terminals as device numbers; 0 means no terminal. The process's terminal comes before the
    /// terminals of the ancestors.
    public var terminals: [Int32] {
        get { box.common.terminals }
        set { common.terminals = newValue }
    }
    /// The innermost run to which the process belongs; nil if it belongs to none.
    public var run: RunID? { box.common.run }
    /// Whether the party stands for a run, and not for a process: it makes the claims of the run's leases (X7).
    public var isLease: Bool { process?.isRun ?? false }
    /// The pid that users read; 0 if the process is unknown. For a lease, the pid of `truce run`.
    public var shownProcess: Int32 { isLease ? run?.pid ?? 0 : process?.number ?? 0 }
    /// The thread that makes the claim; 0 if the thread is unknown.
    public var thread: Int32 = 0
    /// The purpose of an access over the control socket; nil for every other access.
    public var purpose: Purpose?
    /// A second process, the accesses of which are treated as accesses of this party. It is a client that acts for this
    /// process, or a server that saves for it.
    public var partner: Party? {
        get { second.map { Party(box: $0) } }
        set { second = newValue?.box }
    }
    /// Whether the party stands for an unknown program that changed a file out of band.
    public private(set) var isOutOfBand = false

    public init(
        process: ProcessID?, ancestors: [ProcessID], programClass: ProgramClass = .ordinary,
        program: [UInt8] = [], user: UInt32? = nil, session: Int32 = 0, terminals: [Int32] = [],
        runs: [RunID] = []
    ) {
        box = Box(
            Common(
                process: process, ancestors: ancestors + runs.map(\.process), programClass: programClass,
                program: program, user: user, session: session, terminals: terminals, run: runs.first))
    }

    /// The party that makes the claims of a run's leases (X7).
    public init(leasesOf run: RunID, user: UInt32) {
        box = Box(
            Common(
                process: run.process, ancestors: [], programClass: .ordinary,
                program: Array("truce run '\(run.name)'".utf8), user: user, session: 0, terminals: [0],
                run: run))
    }

    private init(box: Box) { self.box = box }

    public static func == (one: Self, other: Self) -> Bool {
        one.hasCommon(with: other) && one.thread == other.thread && one.purpose == other.purpose
            && one.isOutOfBand == other.isOutOfBand && one.second?.common == other.second?.common
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(common)
        hasher.combine(thread)
        hasher.combine(purpose)
        hasher.combine(isOutOfBand)
        hasher.combine(second?.common)
    }

    private func hasCommon(with other: Party) -> Bool {
        box === other.box || box.common == other.box.common
    }

    /// Shares the storage of another party, if both parties have the same process and properties.
    public mutating func shareStorage(with other: Party) {
        if hasCommon(with: other) { box = other.box }
    }

    /// An unknown party, which is exempt from no other party.
    public static let nobody = Party(process: nil, ancestors: [])

    /// A party that changed a file out of band: Truce knows only the change, not the process.
    public static let outOfBand: Party = {
        var party = nobody
        party.isOutOfBand = true
        return party
    }()

    /// Whether the claims of two parties never wait for each other: both are one process, or one is an ancestor of the
    /// other.
    ///
    /// If both parties have a purpose, only the purposes are compared. So threads of one program wait for each other if
    /// their purposes differ.
    public func isExempt(from other: Party) -> Bool {
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        return isRelated(to: other)
    }

    /// Whether the processes are the same, or one is an ancestor of the other. The processes of partners are compared
    /// in the same manner.
    public func isRelated(to other: Party) -> Bool {
        if second == nil, other.second == nil { return isRelatedItself(to: other) }
        return anyIdentity { one in other.anyIdentity { one.isRelatedItself(to: $0) } }
    }

    private func isRelatedItself(to other: Party) -> Bool {
        guard let process, let otherProcess = other.process else { return false }
        return process == otherProcess || ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }

    /// Whether the process of this party, or of its partner, is also the process of the other party or of that party's
    /// partner.
    public func isSameProcess(as other: Party) -> Bool {
        if second == nil, other.second == nil { return process != nil && process == other.process }
        return anyIdentity { one in
            one.process != nil && other.anyIdentity { one.process == $0.process }
        }
    }

    /// Whether the other party is the process or the partner of this party, or a descendant of one of the two.
    ///
    /// A lease includes no party: what the processes of a run do is their own (X7).
    public func includes(_ other: Party) -> Bool {
        anyIdentity { one in
            guard let process = one.process, !process.isRun else { return false }
            return other.anyIdentity { $0.process == process || $0.ancestors.contains(process) }
        }
    }

    /// Calls the body with this party, and then with its partner if the first call returned false.
    public func anyIdentity(_ body: (Party) -> Bool) -> Bool {
        if body(self) { return true }
        return partner.map(body) ?? false
    }

    /// Whether this party is the process of a presenter, or works for that process: a child of an editor counts as the
    /// editor.
    ///
    /// There is one exception: this party, or a process between it and the presenter, has another terminal than the
    /// presenter. So a program that a user runs in the terminal pane of an editor acts for itself.
    public func works(for presenter: Party) -> Bool {
        if second == nil, presenter.second == nil { return worksItself(for: presenter) }
        return anyIdentity { one in presenter.anyIdentity { one.worksItself(for: $0) } }
    }

    private func worksItself(for presenter: Party) -> Bool {
        guard let process, let owner = presenter.process else { return false }
        if process == owner { return true }
        guard let distance = ancestors.firstIndex(of: owner) else { return false }
        let home = presenter.terminals.first ?? 0
        return terminals.prefix(distance + 1).allSatisfy { $0 == 0 || $0 == home }
    }
}
