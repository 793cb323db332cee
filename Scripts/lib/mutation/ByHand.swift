// SPDX-License-Identifier: Apache-2.0
import SwiftSyntax

/// A mutation that somebody wrote down to disable a rule.
///
///     rule G1
///     file Granting.swift
///     why  a claim is granted for its first part alone
///     - text that is there, exactly once
///     + text that is to be there instead
///
/// Of a text of several lines each has its mark; the indentation does not count. Entries are separated by empty
/// lines; a line that begins with `#` is a comment.
struct ByHand {
    let rule: String
    let file: String
    let why: String
    let old: [String]
    let new: [String]
    /// Where the entry begins in the list.
    let line: Int

    static func parse(_ text: String, path: String) throws -> [ByHand] {
        var entries: [ByHand] = []
        var lines: [(Int, Substring)] = []
        func close() throws {
            if !lines.isEmpty { entries.append(try ByHand(lines, path: path)) }
            lines = []
        }
        for (number, line) in zip(1..., text.split(separator: "\n", omittingEmptySubsequences: false)) {
            if line.isEmpty { try close() } else if !line.hasPrefix("#") { lines.append((number, line)) }
        }
        try close()
        return entries
    }

    private init(_ lines: [(Int, Substring)], path: String) throws {
        var words: [String: String] = [:]
        var (old, new): ([String], [String]) = ([], [])
        for (number, line) in lines {
            let text = line.drop { $0 != " " }.trimmed
            switch line.prefix(while: { $0 != " " }) {
            case "-": old.append(text)
            case "+": new.append(text)
            case let word where ["rule", "file", "why"].contains(word): words[String(word)] = text
            default: throw Complaint("\(path):\(number): a line has to begin with rule, file, why, - or +.")
            }
        }
        line = lines[0].0
        guard let rule = words["rule"], let file = words["file"], let why = words["why"], !old.isEmpty else {
            throw Complaint("\(path):\(line): a mutation has a rule, a file, a why, and a text to replace.")
        }
        (self.rule, self.file, self.why, self.old, self.new) = (rule, file, why, old, new)
    }

    /// Where the text is in a source file; it has to be there once.
    func place(in source: [UInt8], list: String) throws -> Range<Int> {
        let stripped = Stripped(source)
        let wanted = Array(old.joined(separator: "\n").utf8)
        let found = stripped.bytes.indices.dropLast(max(0, wanted.count - 1)).filter {
            stripped.bytes[$0...].starts(with: wanted)
        }
        guard let start = found.first, found.count == 1 else {
            throw Complaint(
                "\(list):\(line): the text for rule \(rule) is \(found.count) times in \(file), not once: "
                    + old.joined(separator: " / "))
        }
        return stripped.offsets[start]..<stripped.offsets[start + wanted.count - 1] + 1
    }
}

/// A source without its indentation, and where each byte of it was.
private struct Stripped {
    var bytes: [UInt8] = []
    var offsets: [Int] = []

    init(_ source: [UInt8]) {
        var isIndentation = true
        for (offset, byte) in source.enumerated() {
            if isIndentation, byte == UInt8(ascii: " ") { continue }
            isIndentation = byte == UInt8(ascii: "\n")
            bytes.append(byte)
            offsets.append(offset)
        }
    }
}

extension Substring {
    var trimmed: String {
        var text = drop { $0 == " " }
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}

/// The statements of every function, accessor and initialiser of a file: without the braces.
final class Bodies: SyntaxVisitor {
    private var found: [(range: Range<Int>, function: String)] = []

    init(_ tree: SourceFileSyntax) {
        super.init(viewMode: .sourceAccurate)
        walk(tree)
    }

    /// The innermost one around a place.
    func innermost(around place: Range<Int>) -> (range: Range<Int>, function: String)? {
        found.filter { $0.range.lowerBound <= place.lowerBound && place.upperBound <= $0.range.upperBound }
            .min { $0.range.count < $1.range.count }
    }

    private func add(_ node: some SyntaxProtocol, _ left: TokenSyntax, _ right: TokenSyntax) {
        let range =
            left.endPositionBeforeTrailingTrivia
            .utf8Offset..<right.positionAfterSkippingLeadingTrivia.utf8Offset
        found.append((range, node.nameOfFunction))
    }

    override func visit(_ node: FunctionDeclSyntax) -> SyntaxVisitorContinueKind {
        if let body = node.body { add(node, body.leftBrace, body.rightBrace) }
        return .visitChildren
    }

    override func visit(_ node: InitializerDeclSyntax) -> SyntaxVisitorContinueKind {
        if let body = node.body { add(node, body.leftBrace, body.rightBrace) }
        return .visitChildren
    }

    override func visit(_ node: AccessorDeclSyntax) -> SyntaxVisitorContinueKind {
        if let body = node.body { add(node, body.leftBrace, body.rightBrace) }
        return .visitChildren
    }

    override func visit(_ node: AccessorBlockSyntax) -> SyntaxVisitorContinueKind {
        if case .getter = node.accessors { add(node, node.leftBrace, node.rightBrace) }
        return .visitChildren
    }
}
