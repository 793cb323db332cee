// SPDX-License-Identifier: Apache-2.0

/// A process for its whole life: a pid may be reused, a pair of pid and start time is not.
public struct ProcessID: Hashable, Sendable, CustomStringConvertible {
    /// The thread-group id.
    public let number: Int32
    /// The start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    public let started: UInt64

    public init(number: Int32, started: UInt64) {
        self.number = number
        self.started = started
    }

    public var description: String { "\(number)" }
}

/// How a program is treated when its reads meet writes of another program.
public enum ProgramClass: String, Hashable, Sendable, CaseIterable {
    case ordinary
    /// Backup, sync and indexing programs; they yield to writers and ask no presenter to save.
    case background
    /// Compilers in watch mode, language servers, thumbnailers; they ask no presenter to save.
    case watcher
}

/// A name for related accesses over the control socket: accesses of one purpose do not wait for each other, in any
/// process.
public struct Purpose: Hashable, Sendable {
    public let rawValue: String
    public init(_ rawValue: String) { self.rawValue = rawValue }
}

/// The process that acts, with the ancestors that count as itself.
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
    }

    /// Shared storage: ten thousand claims of one process may wait, see ``shareStorage(with:)``.
    private final class Box: Sendable {
        let common: Common
        init(_ common: Common) { self.common = common }
    }

    private var box: Box
    /// The partner, as far as it is known.
    private var second: Box?
    private var common: Common {
        get { box.common }
        set { box = Box(newValue) }
    }

    /// Nil for an unknown process: its thread is gone, it is the kernel, or it is in another pid namespace.
    public var process: ProcessID? { box.common.process }
    /// From the parent upwards, without pid 1 and service managers.
    public var ancestors: [ProcessID] { box.common.ancestors }
    public var programClass: ProgramClass { box.common.programClass }
    /// The contents of `/proc/PID/comm`; empty if it was not read.
    public var program: [UInt8] {
        get { box.common.program }
        set { common.program = newValue }
    }
    public var user: UInt32? {
        get { box.common.user }
        set { common.user = newValue }
    }
    /// The POSIX session id; the process's own id if its session is not visible, 0 if it was not read.
    public var session: Int32 {
        get { box.common.session }
        set { common.session = newValue }
    }
    /// Controlling terminals as device numbers, 0 for none: the process's own, then each ancestor's.
    public var terminals: [Int32] {
        get { box.common.terminals }
        set { common.terminals = newValue }
    }
    /// The thread that acts, 0 if unknown. A claim of one thread does not depend on the wait of another thread.
    public var thread: Int32 = 0
    /// Set for accesses over the control socket only.
    public var purpose: Purpose?
    /// A second process with accesses that are this party's: the client that acts for this process, or the server
    /// that saves for it.
    public var partner: Party? {
        get { second.map { Party(box: $0) } }
        set { second = newValue?.box }
    }
    /// The party changed a file out of band, so it had no claim.
    public private(set) var isOutOfBand = false

    public init(
        process: ProcessID?, ancestors: [ProcessID], programClass: ProgramClass = .ordinary,
        program: [UInt8] = [], user: UInt32? = nil, session: Int32 = 0, terminals: [Int32] = []
    ) {
        box = Box(
            Common(
                process: process, ancestors: ancestors, programClass: programClass, program: program,
                user: user, session: session, terminals: terminals))
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

    /// Shares the storage of another party if both describe the same process.
    public mutating func shareStorage(with other: Party) {
        if hasCommon(with: other) { box = other.box }
    }

    /// An unknown party, exempt from no other party.
    public static let nobody = Party(process: nil, ancestors: [])

    /// A party that changed a file out of band and was detected by the change.
    public static let outOfBand: Party = {
        var party = nobody
        party.isOutOfBand = true
        return party
    }()

    /// Whether two parties never wait for each other: both are one process, or one is an ancestor of the other.
    ///
    /// Between two accesses over the control socket only purposes count: threads of one program may need to exclude
    /// each other.
    public func isExempt(from other: Party) -> Bool {
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        return isRelated(to: other)
    }

    /// Whether both are one process, or one is an ancestor of the other; a partner's processes count as its party's.
    public func isRelated(to other: Party) -> Bool {
        if second == nil, other.second == nil { return isRelatedItself(to: other) }
        return anyIdentity { one in other.anyIdentity { one.isRelatedItself(to: $0) } }
    }

    private func isRelatedItself(to other: Party) -> Bool {
        guard let process, let otherProcess = other.process else { return false }
        return process == otherProcess || ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }

    /// Whether both are one process, or their partners are.
    public func isSameProcess(as other: Party) -> Bool {
        if second == nil, other.second == nil { return process != nil && process == other.process }
        return anyIdentity { one in
            one.process != nil && other.anyIdentity { one.process == $0.process }
        }
    }

    /// Whether another party is one of this party's processes, or a descendant of one.
    public func includes(_ other: Party) -> Bool {
        anyIdentity { one in
            guard let process = one.process else { return false }
            return other.anyIdentity { $0.process == process || $0.ancestors.contains(process) }
        }
    }

    /// Calls the body with the party as one process, then with its partner.
    public func anyIdentity(_ body: (Party) -> Bool) -> Bool {
        if body(self) { return true }
        return partner.map(body) ?? false
    }

    /// Whether this is a presenter's own process, or works for it: a child of an editor counts as the editor.
    ///
    /// A process on the way with a controlling terminal other than the presenter's breaks the relation: a program in
    /// an editor's terminal pane acts for itself.
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
