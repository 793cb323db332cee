// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem
import TOMLKit

/// The rules about programs and paths that a configuration file contains.
package struct RuleFile: Sendable {
    /// The most bytes that a configuration file may have.
    package static let longest = 256 << 10
    /// The most program names that a file may contain. The number is limited, because the daemon compares the name of a program
    /// with each of them.
    package static let mostNames = 500
    /// The length to which the kernel cuts the name of a program, in bytes.
    package static let kernelNameLength = 15

    /// The rules of the file. If several rules fit the name of a program, the first of them applies.
    package let programs: [ProgramRule]
    /// The rules for files with certain paths. If several rules for a setting fit a file, the last of them applies.
    package let paths: [PathRule]

    /// Parses the contents of a file.
    ///
    /// - Parameters:
    ///   - bytes: The contents.
    ///   - scope: The kind of the file, which decides what the file may contain.
    ///   - path: The path of the file, which the rules name as their origin.
    /// - Throws: The first fault of the file.
    package init(
        parsing bytes: [UInt8], as scope: RuleScope = .everywhere, from path: String = ""
    ) throws(RuleProblem) {
        let text = try Self.text(of: bytes)
        if let line = KeyDepth.excess(in: bytes) {
            throw RuleProblem(line: line, "a key has more than \(KeyDepth.most) parts; take it out")
        }
        let root: TOMLTable
        do {
            root = try TOMLTable(string: text)
        } catch let error as TOMLParseError {
            throw RuleProblem(line: error.source.begin.line, "this is not TOML: \(error.description)")
        } catch {
            throw RuleProblem("this is not TOML: \(error)")
        }
        let reader = RuleReader(lines: SourceLines(text))
        try reader.checkKeys(
            of: root, at: [], known: scope == .everywhere ? ["programs", "paths"] : ["paths"])
        let paths = try root["paths"].map { (value) throws(RuleProblem) in
            try PathRuleReader(lines: reader.lines, scope: scope, file: path).rules(in: value)
        }
        self.paths = paths ?? []
        guard let programs = root["programs"] else {
            self.programs = []
            return
        }
        self.programs = try reader.programs(in: programs)
        guard self.programs.count <= Self.mostNames else {
            throw RuleProblem(
                line: reader.lines.line(of: ["programs"]),
                "'programs' has \(self.programs.count) names; a file may have \(Self.mostNames)")
        }
    }

    /// Converts the bytes of a file to text. Throws if there is a zero byte, because the TOML parser would ignore all text
    /// after that byte.
    private static func text(of bytes: [UInt8]) throws(RuleProblem) -> String {
        if let zero = bytes.firstIndex(of: 0) {
            let line = bytes[..<zero].count(where: { $0 == UInt8(ascii: "\n") }) + 1
            throw RuleProblem(line: line, "there is a zero byte; a configuration file is text")
        }
        if let text = String(validating: bytes, as: UTF8.self) { return text }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let wrong = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0
        throw RuleProblem(line: wrong + 1, "this is not UTF-8; save the file in that encoding")
    }
}

private struct RuleReader {
    let lines: SourceLines

    func checkKeys(of table: TOMLTable, at path: [String], known: [String]) throws(RuleProblem) {
        guard let key = table.keys.first(where: { !known.contains($0) }) else { return }
        let place = path.isEmpty ? "known is" : "known in [\(path.joined(separator: "."))] is"
        let list = known.map { "'\($0)'" }.joined(separator: ", ")
        throw RuleProblem(line: lines.line(of: path + [key]), "unknown key '\(key)'; \(place) \(list)")
    }

    func programs(in value: any TOMLValueConvertible) throws(RuleProblem) -> [ProgramRule] {
        let tables = ProgramTable.allCases.map(\.rawValue)
        let programs = try table(value, at: ["programs"], like: "[programs.background]")
        try checkKeys(of: programs, at: ["programs"], known: tables)
        var rules: [ProgramRule] = []
        for table in ProgramTable.allCases {
            guard let value = programs[table.rawValue] else { continue }
            rules += try self.rules(of: table, in: value)
        }
        return rules
    }

    private func rules(
        of table: ProgramTable, in value: any TOMLValueConvertible
    ) throws(RuleProblem) -> [ProgramRule] {
        let path = ["programs", table.rawValue]
        let content = try self.table(value, at: path, like: "[programs.\(table.rawValue)]")
        try checkKeys(of: content, at: path, known: ["names", "not"])
        let others = try names(content["not"], at: path + ["not"])
        let names = try names(content["names"], at: path + ["names"])
        if let both = names.first(where: others.contains) {
            let line = lines.line(of: path + ["not"], value: both)
            let place = "[programs.\(table.rawValue)]"
            throw RuleProblem(line: line, "'\(both)' is in 'names' and in 'not' of \(place); take one out")
        }
        return try rules(table, others, at: path + ["not"], belongs: false)
            + rules(table, names, at: path + ["names"], belongs: true)
    }

    private func table(
        _ value: any TOMLValueConvertible, at path: [String], like example: String
    ) throws(RuleProblem) -> TOMLTable {
        if let table = value.table { return table }
        throw RuleProblem(
            line: lines.line(of: path),
            "'\(path.joined(separator: "."))' must be a table, for example \(example)")
    }

    private func names(
        _ value: (any TOMLValueConvertible)?, at path: [String]
    ) throws(RuleProblem) -> [String] {
        guard let value else { return [] }
        let example =
            "'\(path.joined(separator: "."))' must be a list of names, for example [\"rsync\", \"bup-*\"]"
        guard let array = value.array else { throw RuleProblem(line: lines.line(of: path), example) }
        var names: [String] = []
        for element in array {
            guard let name = element.string else { throw RuleProblem(line: lines.line(of: path), example) }
            names.append(name)
        }
        return names
    }

    private func rules(
        _ table: ProgramTable, _ names: [String], at path: [String], belongs: Bool
    ) throws(RuleProblem) -> [ProgramRule] {
        var rules: [ProgramRule] = []
        for name in names {
            if let wrong = ProgramName.fault(of: name) {
                throw RuleProblem(
                    line: lines.line(of: path, value: name),
                    "'\(name)' in '\(path.joined(separator: "."))' is no program's name: \(wrong)")
            }
            rules.append(ProgramRule(table, ProgramName.cut(name), belongs: belongs))
        }
        return rules
    }
}

/// Checks the name of a program in a configuration file, and cuts it to the length of names in the kernel.
private enum ProgramName {
    /// Returns a sentence about what is wrong with a name and what the user can do; nil if the name is valid.
    static func fault(of name: String) -> String? {
        if name.isEmpty { return "it is empty; take it out" }
        if name.contains("/") { return "it is a path; write its last part only" }
        if name.contains(where: { $0 == "{" || $0 == "}" || $0 == "[" || $0 == "]" }) {
            return "it has a bracket; only '*' and '?' stand for other characters"
        }
        if name.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
            return "it has a control character; take that out"
        }
        let bytes = Array(name.utf8)
        if bytes.contains(star), cut(name).count(where: { $0 != star }) > RuleFile.kernelNameLength {
            let length = RuleFile.kernelNameLength
            return "a name has \(length) bytes at most, so it fits none; write less beside the '*'"
        }
        return nil
    }

    private static let star = UInt8(ascii: "*")

    /// Cuts a name to the length to which the kernel cuts the names of programs. A name with a shorter part before the first
    /// `*` is not cut.
    static func cut(_ name: String) -> [UInt8] {
        let bytes = Array(name.utf8)
        let beginning = bytes.prefix { $0 != star }
        return beginning.count >= RuleFile.kernelNameLength
            ? Array(beginning.prefix(RuleFile.kernelNameLength)) : bytes
    }
}
