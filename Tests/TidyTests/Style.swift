// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A rule of style that no formatter checks: a text that the code of some files must not contain.
struct Habit: Sendable {
    let what: String
    /// A text that is part of each match. A file without this text cannot break the rule.
    let mark: String
    /// The rule applies only to files below this directory; if empty, to all files.
    var directory = ""
    /// If this is set, a comment in the next line excuses a match. The comment is `@`, this word, a colon and a sentence.
    var excuse: String?
    let isBroken: @Sendable (Substring) -> Bool

    func applies(to file: TextFile) -> Bool {
        file.language == .swift && file.path.hasPrefix(directory) && file.text.has(mark)
    }

    func findings(in file: TextFile, _ lines: [Substring], code: [Substring]) -> [Finding] {
        zip(lines.indices, code).compactMap { index, line in
            guard line.has(mark), isBroken(line), !isExcused(by: lines[(index + 1)...].first) else {
                return nil
            }
            return Finding(path: file.path, line: index + 1, what: what)
        }
    }

    private func isExcused(by line: Substring?) -> Bool {
        guard let excuse, let line else { return false }
        let comment = line.drop { $0 == " " }
        return comment.hasPrefix("// @\(excuse): ") && comment.split(separator: " ").count > 3
    }
}

enum Style {
    static let longestFunction = 70
    static let longestFile = 600

    static let habits = [
        Habit(what: "no // @unchecked: sentence", mark: "@unchecked", excuse: "unchecked") { _ in true },
        Habit(what: "no // @unchecked: sentence", mark: "nonisolated(unsafe)", excuse: "unchecked") { _ in
            true
        },
        // A test must not sleep to let something happen, because it then fails on a slow machine. A test may sleep between two
        // samples.
        Habit(what: "no // @sleep: sentence", mark: "sleep(", directory: "Tests/", excuse: "sleep") {
            $0.contains(/(^|\W)(u|nano)?sleep\(/)
        },
        Habit(what: "an error is dropped", mark: "try?", directory: "Sources/") { $0.contains(/\btry\?/) },
        Habit(what: "an error is swallowed", mark: "catch", directory: "Sources/") {
            $0.contains(/\bcatch\b[^{}]*\{\s*\}/)
        },
        Habit(what: "package access is enough", mark: "public ", directory: "Sources/") { _ in true },
        Habit(what: "package access is enough", mark: "open ", directory: "Sources/") {
            $0.contains(#/^\s*open (\S+ )*(class|func|var) /#)
        },
    ]

    /// Texts that no file may contain: paths that exist on one machine only, and marks of unfinished work. Each is written in
    /// two parts, so that this file does not contain it.
    static let unwanted = [
        "/wo" + "rk/", "/tmp/w" + "t", "../sha" + "red", "../.lib" + "rary", "/opt/sw" + "ift", "/ro" + "ot/",
        "TO" + "DO", "FIX" + "ME",
    ]

    /// Places where `public` is allowed: modules that other packages import, and files with code that the compiler inlines into
    /// other modules.
    static let publicPlaces = [
        "Sources/FileCoordination/", "Sources/Coordination/", "Sources/Arbitration/",
        "Sources/FuseBridge/NodeID.swift",
        "Sources/FuseBridge/Parked.swift", "Sources/LinuxSystem/Files/FileName.swift",
    ]

    static func findings(in file: TextFile) -> [Finding] {
        let isPublic = publicPlaces.contains { file.path.hasPrefix($0) }
        let kept = habits.filter {
            $0.applies(to: file) && !(isPublic && $0.what == "package access is enough")
        }
        let (lines, code) = (file.lines, kept.isEmpty ? [] : file.codeLines)
        return kept.flatMap { $0.findings(in: file, lines, code: code) } + license(file, lines)
            + lengths(file, lines)
            + unwanted.filter { file.text.has($0) }
            .map { Finding(path: file.path, line: 1, what: "'\($0)' is in it") }
    }

    /// Finds a file whose first line does not name the license. The license is in the second line if the first line must be
    /// something else, such as `#!`.
    private static func license(_ file: TextFile, _ lines: [Substring]) -> [Finding] {
        guard file.language != .other || file.path.hasSuffix("/packages") else { return [] }
        let isSecond = file.text.hasPrefix("#!") || file.text.hasPrefix("// swift-tools-version")
        let line = lines.dropFirst(isSecond ? 1 : 0).first ?? ""
        let comment = [.swift, .c].contains(file.language) ? "//" : "#"
        guard line != "\(comment) SPDX-License-Identifier: Apache-2.0" else { return [] }
        return [Finding(path: file.path, line: 1, what: "the first line does not name the license")]
    }

    /// Finds functions and files that are too long. A function ends at its closing brace, or in Python before the next line
    /// that is no deeper.
    private static func lengths(_ file: TextFile, _ lines: [Substring]) -> [Finding] {
        guard file.language != .other else { return [] }
        let depths = lines.map { line in
            line.isEmpty ? Int.max : line.utf8.prefix { $0 == UInt8(ascii: " ") }.count
        }
        let functions = lines.indices.filter { opensFunction(lines[$0], in: file.language) }.compactMap {
            start in
            let end = lines.indices[(start + 1)...].first { depths[$0] <= depths[start] } ?? lines.endIndex
            let length = end - start + (file.language == .python ? 0 : 1)
            return length <= longestFunction
                ? nil : Finding(path: file.path, line: start + 1, what: "a function of \(length) lines")
        }
        return functions
            + (lines.count > longestFile
                ? [Finding(path: file.path, line: 1, what: "\(lines.count) lines")] : [])
    }

    private static func opensFunction(_ line: Substring, in language: TextFile.Language) -> Bool {
        let text = line.drop { $0 == " " }
        return switch language {
        // The line with the opening brace may follow earlier lines of the signature.
        case .swift:
            text.hasSuffix("{")
                && (["func ", "init(", "subscript("].contains { text.contains($0) } || text.hasPrefix(")")
                    || text == "{")
        case .c: line == "{" || line.hasSuffix(") {") && text.count == line.count
        case .shell: line.hasSuffix("() {")
        case .python: text.hasPrefix("def ")
        case .other: false
        }
    }
}
