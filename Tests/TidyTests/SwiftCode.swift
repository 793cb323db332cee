// SPDX-License-Identifier: Apache-2.0

/// Swift or C text with every comment and every string literal blanked, line by line, so that what a check finds
/// is code. Newlines stay where they are.
struct SwiftCode {
    private let text: [Character]
    private var position = 0
    private var code: [Character] = []

    static func lines(of text: String) -> [Substring] {
        var scanner = SwiftCode(text: text)
        scanner.blankUntilClosingParenthesis(atTopLevel: true)
        return String(scanner.code).split(separator: "\n", omittingEmptySubsequences: false)
    }

    private init(text: String) { self.text = Array(text) }

    private func isNext(_ prefix: String) -> Bool {
        text[position...].starts(with: prefix)
    }

    private mutating func keep() {
        code.append(text[position])
        position += 1
    }

    private mutating func blank(_ count: Int = 1) {
        for _ in 0..<min(count, text.count - position) {
            code.append(text[position] == "\n" ? "\n" : " ")
            position += 1
        }
    }

    /// An interpolation is code up to its closing parenthesis; a whole file is code up to its end.
    private mutating func blankUntilClosingParenthesis(atTopLevel: Bool) {
        var depth = 0
        while position < text.count {
            if isNext("//") {
                while position < text.count, text[position] != "\n" { blank() }
            } else if isNext("/*") {
                blankBlockComment()
            } else if text[position] == "\"" || startsRawString {
                blankString()
            } else {
                if text[position] == "(" { depth += 1 }
                if text[position] == ")" {
                    if depth == 0, !atTopLevel { return }
                    depth -= 1
                }
                keep()
            }
        }
    }

    private var startsRawString: Bool {
        guard text[position] == "#" else { return false }
        let rest = text[position...].drop { $0 == "#" }
        return rest.first == "\""
    }

    private mutating func blankBlockComment() {
        var depth = 0
        repeat {
            if isNext("/*") {
                depth += 1
                blank(2)
            } else if isNext("*/") {
                depth -= 1
                blank(2)
            } else {
                blank()
            }
        } while depth > 0 && position < text.count
    }

    private mutating func blankString() {
        let hashes = String(repeating: "#", count: text[position...].prefix { $0 == "#" }.count)
        blank(hashes.count)
        let quotes = isNext("\"\"\"") ? "\"\"\"" : "\""
        blank(quotes.count)
        while position < text.count, !isNext(quotes + hashes) {
            if isNext("\\" + hashes + "(") {
                blank(hashes.count + 2)
                blankUntilClosingParenthesis(atTopLevel: false)
            } else if isNext("\\" + hashes) {
                blank(hashes.count + 2)
            } else if text[position] == "\n", quotes.count == 1 {
                // Not a string after all, as an apostrophe's partner in C; a line ends the damage.
                return
            } else {
                blank()
            }
        }
        blank(quotes.count + hashes.count)
    }
}

extension TextFile {
    /// The lines in which a check for code looks.
    var codeLines: [Substring] {
        switch language {
        case .swift, .c: SwiftCode.lines(of: text)
        case .shell, .python, .other: lines
        }
    }
}
