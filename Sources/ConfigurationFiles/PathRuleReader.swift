// SPDX-License-Identifier: Apache-2.0
import Coordination
import TOMLKit

/// The kind of a configuration file, which decides what the file may contain.
package enum RuleScope: Hashable, Sendable {
    /// The file of the administrator or of the user that mounts: it may contain everything.
    case everywhere
    /// A file in the source. It may contain only entries for paths, with settings that let no contents be lost.
    case source
}

/// Reads the entries `[[paths]]` of a configuration file.
struct PathRuleReader {
    /// The most rules for paths in a file. An entry makes a rule for each of its patterns and settings.
    static let mostRules = 500

    /// The largest value of `keep-count`.
    private static let largestCount = 10_000

    private static let list = "paths"
    private static let example = "[[paths]] with pattern = \"*.json\" and unseen = \"fail\""
    private static let keysForAllPrograms = [PathSetting.Kind.itemClass, .keepFor, .keepCount].map(\.rawValue)

    let lines: SourceLines
    let scope: RuleScope
    /// The path of the file.
    let file: String

    func rules(in value: any TOMLValueConvertible) throws(RuleProblem) -> [PathRule] {
        guard let entries = value.array else { throw isNoList }
        var rules: [PathRule] = []
        for (number, entry) in entries.enumerated() {
            guard let table = entry.table else { throw isNoList }
            rules += try self.rules(of: table, PathEntry(number: number, lines: lines))
        }
        guard rules.count <= Self.mostRules else {
            throw RuleProblem(
                line: lines.line(of: [Self.list]),
                "'paths' has \(rules.count) rules, one for each pattern and setting; a file may have \(Self.mostRules)"
            )
        }
        return rules
    }

    private var isNoList: RuleProblem {
        RuleProblem(
            line: lines.line(of: [Self.list]), "'paths' must be a list of tables, for example \(Self.example)"
        )
    }

    private func rules(of table: TOMLTable, _ entry: PathEntry) throws(RuleProblem) -> [PathRule] {
        let known = ["pattern", "programs"] + kinds.map(\.rawValue)
        if let key = table.keys.first(where: { !known.contains($0) }) {
            let list = known.map { "'\($0)'" }.joined(separator: ", ")
            let place = scope == .source ? "[[paths]] of a file in the source" : "[[paths]]"
            throw entry.problem(at: key, "unknown key '\(key)'; known in \(place) is \(list)")
        }
        let patterns = try patterns(in: table["pattern"], entry)
        let programs = try table["programs"].map { (value) throws(RuleProblem) in
            try self.programs(in: value, entry)
        }
        if programs != nil, let key = Self.keysForAllPrograms.first(where: { table[$0] != nil }) {
            throw entry.problem(
                at: key,
                "a file has one '\(key)' for all programs; write '\(key)' in an entry without 'programs'")
        }
        var rules: [PathRule] = []
        for kind in kinds {
            guard let value = table[kind.rawValue] else { continue }
            let setting = try setting(kind, value, entry)
            let line = entry.line(of: kind.rawValue)
            rules += patterns.map { PathRule($0, programs: programs, setting, file: file, line: line) }
        }
        guard !rules.isEmpty else {
            let list = kinds.map { "'\($0.rawValue)'" }.joined(separator: ", ")
            throw entry.problem(
                at: nil, "this entry has no setting; add one of \(list), or take the entry out")
        }
        return rules
    }

    private func patterns(
        in value: (any TOMLValueConvertible)?, _ entry: PathEntry
    ) throws(RuleProblem) -> [PathGlob] {
        guard let value else {
            throw entry.problem(
                at: nil, "this entry has no 'pattern'; add one, for example pattern = \"*.json\"")
        }
        let texts = try entry.texts(
            in: value, of: "pattern",
            like: "'pattern' must be a pattern or a list of patterns, for example \"*.json\"")
        guard !texts.isEmpty else {
            throw entry.problem(
                at: "pattern", "'pattern' is an empty list; add a pattern, or take the entry out")
        }
        var patterns: [PathGlob] = []
        for text in texts {
            do throws(PathGlob.Fault) {
                patterns.append(try PathGlob(text))
            } catch {
                throw entry.problem(at: "pattern", value: text, "'\(text)' is no pattern: \(error)")
            }
        }
        return patterns
    }

    private func programs(
        in value: any TOMLValueConvertible, _ entry: PathEntry
    ) throws(RuleProblem) -> [ProgramTable] {
        let known = ProgramTable.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        let texts = try entry.texts(
            in: value, of: "programs", like: "'programs' must be a list of program tables: \(known)")
        var tables: [ProgramTable] = []
        for text in texts {
            guard let table = ProgramTable(rawValue: text) else {
                throw entry.problem(
                    at: "programs", value: text, "'\(text)' is no table of programs; known is \(known)")
            }
            tables.append(table)
        }
        guard !tables.isEmpty else {
            throw entry.problem(
                at: "programs",
                "'programs' is an empty list; take it out, so that the entry is for all programs")
        }
        return tables
    }

    /// The settings that the file may contain.
    private var kinds: [PathSetting.Kind] {
        PathSetting.Kind.allCases.filter { scope == .everywhere || ![.log, .wait, .hold].contains($0) }
    }

    private func setting(
        _ kind: PathSetting.Kind, _ value: any TOMLValueConvertible, _ entry: PathEntry
    ) throws(RuleProblem) -> PathSetting {
        let name = kind.rawValue
        switch kind {
        case .unseen:
            let policies = scope == .source ? [.keep, .fail] : UnseenPolicy.allCases
            return .unseen(try choice(of: policies, in: value, name, entry))
        case .itemClass:
            let classes: [ItemClass] =
                scope == .source ? [.document] : [.document, .database, .log, .private]
            return .itemClass(try choice(of: classes, in: value, name, entry))
        case .keep:
            let policies = scope == .source ? [.writes] : KeepPolicy.allCases
            return .keep(try choice(of: policies, in: value, name, entry))
        case .log: return .log(try choice(of: LogPolicy.allCases, in: value, name, entry))
        case .keepFor:
            guard let span = value.string.flatMap({ TimeSpan(parsingLong: $0) }), span > .zero else {
                throw entry.problem(at: name, "'\(name)' must be a time, for example \"48h\"")
            }
            return .keepFor(span)
        case .wait: return .wait(try bound(in: value, name, entry))
        case .hold: return .hold(try bound(in: value, name, entry))
        case .keepCount:
            guard let count = value.int, (1...Self.largestCount).contains(count) else {
                throw entry.problem(at: name, "'\(name)' must be a number from 1 to \(Self.largestCount)")
            }
            return .keepCount(count)
        }
    }

    /// Returns the value of a setting that is a time limit.
    private func bound(
        in value: any TOMLValueConvertible, _ name: String, _ entry: PathEntry
    ) throws(RuleProblem) -> TimeSpan {
        guard let span = value.string.flatMap({ TimeSpan(parsing: $0) }), span > .zero else {
            throw entry.problem(
                at: name, "'\(name)' must be a time from 1ms to 24h, for example \"5s\"")
        }
        return span
    }

    /// Returns the value of a setting that must be one of `values`.
    private func choice<Value: RawRepresentable<String>>(
        of values: [Value], in value: any TOMLValueConvertible, _ name: String, _ entry: PathEntry
    ) throws(RuleProblem) -> Value {
        let known = values.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        guard let text = value.string else {
            throw entry.problem(at: name, "'\(name)' must be one of \(known)")
        }
        if let found = values.first(where: { $0.rawValue == text }) { return found }
        let place = scope == .source ? " in a file in the source" : ""
        throw entry.problem(at: name, "'\(text)' is no value of '\(name)'\(place); known is \(known)")
    }
}

/// One entry `[[paths]]`, with the lines of its keys.
private struct PathEntry {
    /// The number of the entry in the file, from 0.
    let number: Int
    let lines: SourceLines

    func line(of key: String?, value: String? = nil) -> Int {
        lines.line(ofEntry: number, in: "paths", key: key, value: value)
    }

    func problem(at key: String?, value: String? = nil, _ message: String) -> RuleProblem {
        RuleProblem(line: line(of: key, value: value), message)
    }

    /// Returns the texts of a list of texts, or one text that is not in a list.
    func texts(
        in value: any TOMLValueConvertible, of key: String, like message: String
    ) throws(RuleProblem) -> [String] {
        if let text = value.string { return [text] }
        guard let array = value.array else { throw problem(at: key, message) }
        var texts: [String] = []
        for element in array {
            guard let text = element.string else { throw problem(at: key, message) }
            texts.append(text)
        }
        return texts
    }
}
