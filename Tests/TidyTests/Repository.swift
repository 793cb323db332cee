// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A text file of the repository, as the checks see it.
struct TextFile {
    enum Language { case swift, c, shell, python, other }

    /// Relative to the root of the repository.
    let path: String
    let text: String

    var name: String { String(path.split(separator: "/").last ?? "") }
    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// Scripts have no extension; their first line says what runs them.
    var language: Language {
        if name.hasSuffix(".swift") { return .swift }
        if name.hasSuffix(".c") || name.hasSuffix(".h") { return .c }
        let shebang = text.hasPrefix("#!") ? lines[0] : ""
        if name.hasSuffix(".sh") || shebang.hasSuffix("bash") || shebang.hasSuffix("/sh") { return .shell }
        if name.hasSuffix(".py") || shebang.hasSuffix("python3") { return .python }
        return .other
    }

    /// `Sources/truce/Mount.swift` lies in `Sources/truce`.
    func isBelow(_ directory: String) -> Bool { path.hasPrefix(directory + "/") }
}

enum Repository {
    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Every text file that belongs to the project. What a build leaves at the top level does not.
    static let files: [TextFile] = {
        var found: [TextFile] = []
        for entry in ["Package.swift", "README.md", ".ci", ".swift-format", ".gitignore"] + directories {
            found += texts(at: entry)
        }
        return found.sorted { $0.path < $1.path }
    }()

    static let directories = ["Scripts", "Sources", "Tests"]

    static var topLevel: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: root.path) }
    }

    private static func texts(at path: String) -> [TextFile] {
        let url = root.appendingPathComponent(path)
        let entries = FileManager.default.enumerator(atPath: url.path)?.compactMap { $0 as? String }
        let paths = entries.map { $0.map { path + "/" + $0 } } ?? [path]
        return paths.compactMap { path in
            // A directory or a file that is not text cannot be read as a string and has no style.
            let text = FileManager.default.contents(atPath: root.appendingPathComponent(path).path)
                .flatMap { String(data: $0, encoding: .utf8) }
            return text.map { TextFile(path: path, text: $0) }
        }
    }
}

/// What a check found: where, and what is wrong. Checks are functions from a text to findings, so that each is
/// also shown to fail on a planted text.
struct Finding: Equatable, CustomStringConvertible {
    let path: String
    let line: Int
    let what: String

    var description: String { "\(path):\(line): \(what)" }
}

extension TextFile {
    /// The lines without comments and without what stands in quotes.
    var codeLines: [Substring] {
        guard language == .swift || language == .c else { return lines }
        var isText = false
        return lines.map { line in
            let isEnd = line.has("\"\"\"")
            if isEnd { isText.toggle() }
            return isText || isEnd ? "" : Self.code(of: line)
        }
    }

    private static func code(of line: Substring) -> Substring {
        guard line.has("//") || line.has("\"") else { return line }
        var code = ""
        var (isQuoted, previous) = (false, Character(" "))
        for character in line {
            if !isQuoted, character == "/", previous == "/" { return Substring(code) }
            if character == "\"", previous != "\\" { isQuoted.toggle() }
            if !isQuoted { code.append(character) }
            previous = previous == "\\" && character == "\\" ? " " : character
        }
        return Substring(code)
    }
}

extension StringProtocol {
    /// Whether a text is in it, compared by bytes: the checks look at millions of lines.
    func has(_ text: some StringProtocol) -> Bool {
        withCString { own in text.withCString { strstr(own, $0) != nil } }
    }
}
