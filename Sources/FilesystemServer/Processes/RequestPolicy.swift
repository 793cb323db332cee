// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization
package import VersionStore

/// A setting that an entry `[[paths]]` of a configuration file can give to files and programs.
package struct PolicySetting<Value: Sendable>: Sendable {
    fileprivate let kind: PathSetting.Kind
    /// The value for a file that no entry fits.
    package let standard: Value
    fileprivate let value: @Sendable (PathSetting) -> Value?
}

extension PolicySetting<UnseenPolicy> {
    package static let unseen = PolicySetting(kind: .unseen, standard: .keep) {
        if case .unseen(let policy) = $0 { policy } else { nil }
    }
}

extension PolicySetting<ItemClass?> {
    /// The class of a file; nil if its name and contents show the class.
    package static let itemClass = PolicySetting(kind: .itemClass, standard: nil) {
        if case .itemClass(let itemClass) = $0 { itemClass } else { nil }
    }
}

extension PolicySetting<KeepPolicy> {
    package static let keep = PolicySetting(kind: .keep, standard: .losses) {
        if case .keep(let policy) = $0 { policy } else { nil }
    }
}

extension PolicySetting<TimeSpan> {
    /// How long the versions of `keep = "writes"` are preserved.
    package static let keepFor = PolicySetting(kind: .keepFor, standard: .seconds(48 * 3600)) {
        if case .keepFor(let span) = $0 { span } else { nil }
    }
}

extension PolicySetting<Int> {
    /// How many versions of one document `keep = "writes"` preserves.
    package static let keepCount = PolicySetting(kind: .keepCount, standard: 100) {
        if case .keepCount(let count) = $0 { count } else { nil }
    }
}

extension PolicySetting<LogPolicy> {
    package static let log = PolicySetting(kind: .log, standard: .changes) {
        if case .log(let policy) = $0 { policy } else { nil }
    }
}

extension PolicySetting<TimeSpan?> {
    /// How long an open waits; nil if the mount's limit applies.
    package static let wait = PolicySetting(kind: .wait, standard: nil) {
        if case .wait(let span) = $0 { span } else { nil }
    }
    /// How long an open handle makes other programs wait; nil if the mount's limit applies.
    package static let hold = PolicySetting(kind: .hold, standard: nil) {
        if case .hold(let span) = $0 { span } else { nil }
    }
}

extension PathSetting.Kind {
    /// The index of the setting's rules in a ``PolicyTable``.
    fileprivate var place: Int {
        switch self {
        case .unseen: 0
        case .itemClass: 1
        case .keep: 2
        case .keepFor: 3
        case .keepCount: 4
        case .log: 5
        case .wait: 6
        case .hold: 7
        }
    }
}

/// The rules of all entries `[[paths]]` in force, in the order in which they decide.
package struct PolicyTable: Sendable {
    /// For each setting its rules; the first rule that fits decides.
    private let rules: [[PathRule]]

    /// `rules` are in the order of the configuration files: the last rule that fits decides.
    package init(_ rules: [PathRule] = []) {
        var sorted = [[PathRule]](repeating: [], count: PathSetting.Kind.allCases.count)
        for rule in rules.reversed() { sorted[rule.setting.kind.place].append(rule) }
        self.rules = sorted
    }

    /// Returns all settings with their values for a file that no rule fits. `bounds` are the time limits of the mount.
    package static func standards(forFileAt path: [UInt8], under bounds: Bounds) -> [PathSetting] {
        let parts = path.split(separator: UInt8(ascii: "/"))
        let isInGitDirectory = parts.dropLast().contains { $0.elementsEqual(".git".utf8) }
        let itemClass = ItemClass(
            of: Array(parts.last ?? []), in: isInGitDirectory ? .gitDirectory : .ordinary)
        return [
            .unseen(PolicySetting.unseen.standard), .itemClass(itemClass), .keep(PolicySetting.keep.standard),
            .keepFor(PolicySetting.keepFor.standard), .keepCount(PolicySetting.keepCount.standard),
            .log(PolicySetting.log.standard), .wait(bounds.wait), .hold(bounds.hold),
        ]
    }

    package var isEmpty: Bool { rules.allSatisfy(\.isEmpty) }

    /// Returns the value of a setting for a file and a program.
    ///
    /// `isIn` returns whether the program is in a table. It is called only if an entry for certain programs fits the file.
    package func value<Value>(
        of setting: PolicySetting<Value>, forFileAt path: [UInt8],
        usedByProgramIn isIn: (ProgramTable) -> Bool
    ) -> Value {
        let rule = rules[setting.kind.place].first { rule in
            rule.pattern.matches(path) && (rule.programs?.contains(where: isIn) ?? true)
        }
        return rule.flatMap { setting.value($0.setting) } ?? setting.standard
    }

    fileprivate var classRules: [PathRule] { rules[PathSetting.Kind.itemClass.place] }
    fileprivate var hasBounds: Bool { [PathSetting.Kind.wait, .hold].contains { !rules[$0.place].isEmpty } }
    fileprivate var keepsWrites: Bool {
        rules[PathSetting.Kind.keep.place].contains { $0.setting == .keep(.writes) }
    }
    fileprivate var logsReads: Bool {
        rules[PathSetting.Kind.log.place].contains { $0.setting == .log(.reads) }
    }

    /// Returns how long and how many versions of a file's history are preserved. Returns nil if the contents before a write are
    /// preserved for no program by a rule, so that only the general limits apply.
    package func limitsOfHistory(ofFileAt path: [UInt8]) -> KeptWritesLimits? {
        guard rules(forFileAt: path).contains(where: { $0.setting == .keep(.writes) }) else { return nil }
        return KeptWritesLimits(
            age: value(of: .keepFor, forFileAt: path) { _ in false },
            versions: value(of: .keepCount, forFileAt: path) { _ in false })
    }

    fileprivate var mergesSaves: Bool {
        rules[PathSetting.Kind.unseen.place].contains { $0.setting == .unseen(.merge) }
    }

    /// Returns the rules of all settings that decide about a file for some program, in the order in which they decide.
    package func rules(forFileAt path: [UInt8]) -> [PathRule] {
        rules.flatMap { rules in
            let fitting = rules.filter { $0.pattern.matches(path) }
            // A rule for all programs overrides the rules after it.
            let last = fitting.firstIndex { $0.programs == nil } ?? fitting.endIndex - 1
            return fitting.prefix(last + 1)
        }
    }
}

/// The rules for paths of one mount, which can be replaced while the mount is in use.
final class PathPolicies: Sendable {
    private let table: Mutex<PolicyTable>
    /// Whether there are rules. Without rules, a look-up costs only this flag.
    private let hasRules: Atomic<Bool>
    private let classRuleCount: Atomic<Int>
    private let hasBoundRules: Atomic<Bool>
    private let keepsWrites: Atomic<Bool>
    private let logsReads: Atomic<Bool>
    private let hasMerges: Atomic<Bool>

    init(_ rules: [PathRule]) {
        let table = PolicyTable(rules)
        hasRules = Atomic(!table.isEmpty)
        classRuleCount = Atomic(table.classRules.count)
        hasBoundRules = Atomic(table.hasBounds)
        keepsWrites = Atomic(table.keepsWrites)
        logsReads = Atomic(table.logsReads)
        hasMerges = Atomic(table.mergesSaves)
        self.table = Mutex(table)
    }

    /// The rules; nil if there are none.
    var present: PolicyTable? {
        hasRules.load(ordering: .acquiring) ? table.withLock { $0 } : nil
    }

    /// Whether rules give classes to files.
    var hasClassRules: Bool { classRuleCount.load(ordering: .relaxed) > 0 }
    /// Whether rules give files time limits.
    var hasBounds: Bool { hasBoundRules.load(ordering: .relaxed) }
    /// Whether a rule preserves the contents before each write of some files.
    var hasWriteRules: Bool { keepsWrites.load(ordering: .relaxed) }
    /// Whether a rule adds the reads of some files to the log.
    var hasReadRules: Bool { logsReads.load(ordering: .relaxed) }

    /// Whether a rule has the setting `unseen = "merge"`.
    var mergesSaves: Bool { hasMerges.load(ordering: .relaxed) }

    /// Replaces the rules. Returns whether files may have another class now.
    func replace(by rules: [PathRule]) -> Bool {
        let next = PolicyTable(rules)
        let former = table.withLock { table in
            defer { table = next }
            return table
        }
        hasRules.store(!next.isEmpty, ordering: .releasing)
        classRuleCount.store(next.classRules.count, ordering: .releasing)
        hasBoundRules.store(next.hasBounds, ordering: .releasing)
        keepsWrites.store(next.keepsWrites, ordering: .releasing)
        logsReads.store(next.logsReads, ordering: .releasing)
        hasMerges.store(next.mergesSaves, ordering: .releasing)
        return former.classRules != next.classRules
    }

    /// Returns the class that a rule gives to a file; nil if there is no such rule. `path` is computed only if there are rules.
    func itemClass(ofFileAt path: @autoclosure () -> [UInt8]) -> ItemClass? {
        // A rule for a class is always for all programs.
        guard hasClassRules else { return nil }
        return present?.value(of: .itemClass, forFileAt: path()) { _ in false }
    }
}

extension MountContext {
    /// Looks up the value of a setting for a file and the program that uses it.
    ///
    /// This is the only look-up of settings for paths. If no configuration file has an entry `[[paths]]`, `path` is not
    /// computed. The program is looked up only if an entry for certain programs fits the file.
    ///
    /// - Parameters:
    ///   - setting: The setting.
    ///   - path: The path of the file, from the source's root.
    ///   - thread: The thread that uses the file; 0 if it is not known, so that only entries for all programs apply.
    /// - Returns: The value of the last entry that fits the file and the program.
    func policy<Value>(
        of setting: PolicySetting<Value>, forFileAt path: @autoclosure () -> [UInt8], usedBy thread: Int32
    ) -> Value {
        guard let table = policies.present else { return setting.standard }
        var known: Party?
        return table.value(of: setting, forFileAt: path()) { programs in
            let party = known ?? (thread > 0 ? processes.currentParty(ofThread: thread) : .nobody)
            known = party
            return processes.isIn(programs, party)
        }
    }

    /// Looks up the time limits that entries give to a claim of a program on a file (D274). Without such entries, this costs one
    /// flag.
    ///
    /// - Parameters:
    ///   - path: The path of the file, from the source's root.
    ///   - thread: The thread that makes the claim; 0 if it is not known, so that only entries for all programs apply.
    /// - Returns: The time limits; nil for those of the mount.
    func bounds(forFileAt path: @autoclosure () -> [UInt8], usedBy thread: Int32) -> ClaimBounds? {
        guard policies.hasBounds else { return nil }
        let path = path()
        let wait = policy(of: .wait, forFileAt: path, usedBy: thread)
        return ClaimBounds(
            wait: wait.map { min($0, longestWait ?? $0) },
            hold: policy(of: .hold, forFileAt: path, usedBy: thread))
    }
}

extension ProcessResolver {
    /// Returns whether a program is in a table of programs. A program of the lowest priority may count as a background program.
    func isIn(_ table: ProgramTable, _ party: Party) -> Bool {
        table == .background
            ? party.programClass == .background : programs.holds(party.program, in: table)
    }
}
