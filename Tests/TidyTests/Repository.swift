// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A text file of the repository, as the checks read it.
struct TextFile {
    enum Language { case swift, c, shell, python, other }

    /// The file's path, relative to the root of the repository.
    let path: String
    let text: String

    var name: String { String(path.split(separator: "/").last ?? "") }
    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// The language of the file. A script has no extension, and its first line names its interpreter.
    var language: Language {
        if name.hasSuffix(".swift") { return .swift }
        if name.hasSuffix(".c") || name.hasSuffix(".h") { return .c }
        let shebang = text.hasPrefix("#!") ? lines[0] : ""
        if name.hasSuffix(".sh") || shebang.hasSuffix("bash") || shebang.hasSuffix("/sh") { return .shell }
        if name.hasSuffix(".py") || shebang.hasSuffix("python3") { return .python }
        return .other
    }

    /// True if the file is below a directory: `Sources/truce/Mount.swift` is below `Sources/truce`.
    func isBelow(_ directory: String) -> Bool { path.hasPrefix(directory + "/") }
}

enum Repository {
    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Every text file of the project, without the files that a build makes at the top level.
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
            // A directory, and a file that is not text, cannot be read as a string. The checks of style do not apply to it.
            let text = FileManager.default.contents(atPath: root.appendingPathComponent(path).path)
                .flatMap { String(data: $0, encoding: .utf8) }
            return text.map { TextFile(path: path, text: $0) }
        }
    }
}

/// A finding of a check: the place and the fault. A check is a function from a text to findings, so that a test can give it a
/// text with a planted fault.
struct Finding: Equatable, CustomStringConvertible {
    let path: String
    let line: Int
    let what: String

    var description: String { "\(path):\(line): \(what)" }
}

extension TextFile {
    /// The lines of the file's code, without comments and without the contents of string literals.
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
    /// True if this text contains the other text. The comparison is by bytes, because the checks compare millions of lines.
    func has(_ text: some StringProtocol) -> Bool {
        withCString { own in text.withCString { strstr(own, $0) != nil } }
    }
}
