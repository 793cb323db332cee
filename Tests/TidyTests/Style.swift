// SPDX-License-Identifier: Apache-2.0

/// The habits of style that a program can check.
enum Style {
    static let longestFunction = 70
    static let longestFile = 600

    static let checks: [@Sendable (TextFile) -> [Finding]] = [
        license, fileLength, functionLength, unchecked, swallowedErrors, unfinished, sleeps,
        machinePaths,
    ]

    static func findings(in file: TextFile) -> [Finding] {
        checks.flatMap { $0(file) }
    }

    /// The first line names the license, after a line that has to be first.
    static func license(_ file: TextFile) -> [Finding] {
        let isMarked = file.language != .other || file.path.hasSuffix("/packages")
        guard isMarked else { return [] }
        let first =
            file.lines.first.map { $0.hasPrefix("#!") || $0.hasPrefix("// swift-tools-version") } ?? false
        let line = file.lines.dropFirst(first ? 1 : 0).first ?? ""
        let comment = file.language == .swift || file.language == .c ? "//" : "#"
        guard line != "\(comment) SPDX-License-Identifier: Apache-2.0" else { return [] }
        return [Finding(path: file.path, line: 1, what: "the first line does not name the license")]
    }

    static func fileLength(_ file: TextFile) -> [Finding] {
        guard file.language != .other, file.lines.count > longestFile else { return [] }
        return [Finding(path: file.path, line: longestFile, what: "a file of more than \(longestFile) lines")]
    }

    static func functionLength(_ file: TextFile) -> [Finding] {
        file.functions.filter { $0.length > longestFunction }.map {
            Finding(path: file.path, line: $0.line, what: "a function of \($0.length) lines")
        }
    }

    /// What the compiler cannot check, a sentence on the next line has to make true.
    static func unchecked(_ file: TextFile) -> [Finding] {
        guard file.language == .swift else { return [] }
        return file.findings(
            of: /@unchecke[d]\b|nonisolated\(unsaf[e]\)/, in: file.codeLines, "no // @unchecked: sentence"
        )
        .filter { finding in
            // Findings count lines from 1, so this is the line after the finding's.
            let next = file.lines.dropFirst(finding.line).first ?? ""
            return next.firstMatch(of: /^\s*\/\/ @unchecke[d]: \S+ \S+/) == nil
        }
    }

    static func swallowedErrors(_ file: TextFile) -> [Finding] {
        guard file.language == .swift, file.isBelow("Sources") else { return [] }
        let code = file.codeLines.joined(separator: "\n")
        return file.findings(of: /\btry\?/, in: file.codeLines, "an error is dropped")
            + code.matches(of: /\bcatch\b[^{}\n]*\{\s*\}/).map { match in
                let line = code[..<match.range.lowerBound].filter { $0 == "\n" }.count + 1
                return Finding(path: file.path, line: line, what: "an error is swallowed")
            }
    }

    static func unfinished(_ file: TextFile) -> [Finding] {
        file.findings(of: /\b(TO[D]O|FIX[M]E|XX[X])\b/, in: file.lines, "unfinished work belongs in an issue")
    }

    /// A test that sleeps to let something happen fails on a slow machine and wastes a fast one. Sampling at an
    /// interval is another thing; the next line says so.
    static func sleeps(_ file: TextFile) -> [Finding] {
        guard file.language == .swift, file.isBelow("Tests") else { return [] }
        return file.findings(of: /\b(u|nano)?sleep\(/, in: file.codeLines, "no // @sleep: sentence").filter {
            finding in
            let next = file.lines.dropFirst(finding.line).first ?? ""
            return next.firstMatch(of: /^\s*\/\/ @sleep: \S+ \S+/) == nil
        }
    }

    /// Paths that exist on one machine only.
    static func machinePaths(_ file: TextFile) -> [Finding] {
        let paths =
            /\/wor[k]\/|\/tmp\/w[t]\b|\.\.\/(shared|\.library)\b|\/opt\/swif[t]\b|\/roo[t]\/|\/hom[e]\/\w/
        return file.findings(of: paths, in: file.lines, "a path of one machine")
    }

    /// The entries of the top level that are not part of the layout. Package.resolved is written by every build.
    static func strangers(atTopLevel entries: [String]) -> [String] {
        let layout = ["Package.swift", "Package.resolved", "README.md"] + Repository.directories
        return entries.filter { !$0.hasPrefix(".") && !layout.contains($0) }
    }
}
