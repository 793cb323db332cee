// SPDX-License-Identifier: Apache-2.0

/// A word of a shell command: its text without quotes, and whether the shell would still replace a part of it.
struct ShellWord: Equatable {
    var text = ""
    var isDynamic = false
}

/// A simple command: the words from its name on, without assignments and redirections.
struct ShellCommand: Equatable {
    let words: [ShellWord]
    let line: Int
    /// The function whose body the command is in, if any.
    let function: String?
}

/// Finds the simple commands in a bash script, those in `$(…)`, `<(…)` and `(…)` included. It knows as much of the
/// language as the project's scripts use: no backquotes, no `select`; here-documents count as text.
struct ShellScanner {
    private let text: [Character]
    private var position = 0
    private var line = 1
    private var cases = 0
    private var hereDocuments: [String] = []
    private var words: [ShellWord] = []
    private(set) var commands: [ShellCommand] = []
    private(set) var functions: Set<String> = []
    private var function: String?

    init(_ source: String) {
        text = Array(source)
        scanCommands(until: nil)
    }

    private var next: Character? { position < text.count ? text[position] : nil }

    private func isNext(_ prefix: String) -> Bool { text[position...].starts(with: prefix) }

    private mutating func advance(_ count: Int = 1) {
        for _ in 0..<min(count, text.count - position) {
            if text[position] == "\n" { line += 1 }
            position += 1
        }
    }

    private mutating func scanCommands(until end: Character?) {
        let outer = (words, cases)
        (words, cases) = ([], 0)
        while let character = next {
            if character == end, cases == 0 { break }
            scanOne(character)
        }
        finishCommand()
        advance()
        (words, cases) = outer
    }

    private mutating func scanOne(_ character: Character) {
        switch character {
        case " ", "\t": advance()
        case "\\" where isNext("\\\n"): advance(2)
        case "#": while let next, next != "\n" { advance() }
        case "\n": endLine()
        case "&" where isNext("&>"): scanRedirection()
        case ";", "&", "|": separate()
        case "(": openParenthesis()
        case ")":
            // The end of a pattern of `case`.
            words = []
            advance()
        case "<" where isNext("<("), ">" where isNext(">("): words.append(scanWord())
        case "<", ">": scanRedirection()
        default: take(scanWord())
        }
    }

    private mutating func endLine() {
        finishCommand()
        advance()
        for delimiter in hereDocuments {
            var text = ""
            repeat {
                text = ""
                while let next, next != "\n" {
                    text.append(next)
                    advance()
                }
                advance()
            } while text != delimiter && next != nil
        }
        hereDocuments = []
        // A brace in the first column ends a function, as the formatting of the scripts has it.
        if isNext("}") { function = nil }
    }

    private mutating func separate() {
        finishCommand()
        let endsBranch = isNext(";;")
        while let next, ";&|".contains(next) { advance() }
        if endsBranch { skipPattern() }
    }

    /// Over the pattern of a `case` branch, to the parenthesis that ends it, or to `esac`.
    private mutating func skipPattern() {
        while let character = next, character != ")" {
            if isNext("esac") { return }
            if " \t\n|(".contains(character) { advance() } else { _ = scanWord() }
        }
        advance()
    }

    private mutating func openParenthesis() {
        if isNext("((") {
            skipArithmetic()
        } else if isNext("()"), let name = words.last {
            functions.insert(name.text)
            function = name.text
            words = []
            advance(2)
        } else {
            advance()
            scanCommands(until: ")")
        }
    }

    private mutating func skipArithmetic() {
        var depth = 0
        repeat {
            if next == "(" { depth += 1 }
            if next == ")" { depth -= 1 }
            if isNext("$(") && !isNext("$((") {
                advance(2)
                scanCommands(until: ")")
            } else {
                advance()
            }
        } while depth > 0 && next != nil
    }

    private mutating func scanRedirection() {
        // `2>` and `{name}>`: the word before belongs to the redirection if nothing is between them.
        if position > 0, let last = words.last, !text[position - 1].isWhitespace,
            last.text.allSatisfy(\.isNumber) || last.text.hasPrefix("{")
        {
            words.removeLast()
        }
        let opensHereDocument = isNext("<<") && !isNext("<<<")
        while let next, "<>&|".contains(next), !isNext("<("), !isNext(">(") { advance() }
        if opensHereDocument, next == "-" { advance() }
        while next == " " { advance() }
        let target = scanWord()
        if opensHereDocument { hereDocuments.append(target.text) }
    }

    private static let openers: Set<String> = [
        "if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc", "fi", "done",
        "esac", "}",
    ]

    private mutating func take(_ word: ShellWord) {
        guard words.isEmpty, !word.isDynamic || word.text.contains("=") else {
            words.append(word)
            // `case WORD in`, then the first pattern.
            if words.count == 3, words[0].text == "case", word.text == "in" {
                cases += 1
                words = []
                skipPattern()
            }
            return
        }
        if word.text == "esac" { cases -= 1 }
        if word.text == "[[" { return skipTest() }
        let isAssignment = word.text.firstMatch(of: /^\w+(\[[^\]]*\])?\+?=/) != nil
        if !isAssignment, !Self.openers.contains(word.text) { words.append(word) }
    }

    /// `[[ … ]]` has words but no commands, save those in substitutions.
    private mutating func skipTest() {
        while next != nil, !isNext("]]") {
            if " \t\n()<>&|;".contains(text[position]) { advance() } else { _ = scanWord() }
        }
        advance(2)
    }

    private mutating func finishCommand() {
        if !words.isEmpty { commands.append(ShellCommand(words: words, line: line, function: function)) }
        words = []
    }

    private mutating func scanWord() -> ShellWord {
        var word = ShellWord()
        let start = position
        while let character = next {
            switch character {
            case "'": scanQuoted(into: &word)
            case "\"": scanDoubleQuoted(into: &word)
            case "$": scanDollar(into: &word)
            case "\\":
                advance()
                if let next { word.text.append(next) }
                advance()
            case "<" where isNext("<("), ">" where isNext(">("):
                word.isDynamic = true
                advance(2)
                scanCommands(until: ")")
            case "(" where word.text.hasSuffix("="):
                // The words of an array are values.
                advance()
                while let next, next != ")" {
                    if next.isWhitespace { advance() } else { _ = scanWord() }
                }
                advance()
            case " ", "\t", "\n", ";", "&", "|", "(", ")", "<", ">":
                // A character no word can begin with still has to be passed.
                if position == start { advance() }
                return word
            default:
                word.text.append(character)
                advance()
            }
        }
        return word
    }

    private mutating func scanQuoted(into word: inout ShellWord) {
        advance()
        while let next, next != "'" {
            word.text.append(next)
            advance()
        }
        advance()
    }

    private mutating func scanDoubleQuoted(into word: inout ShellWord) {
        advance()
        while let character = next, character != "\"" {
            if character == "$" {
                scanDollar(into: &word)
            } else {
                if character == "\\" { advance() }
                if let next { word.text.append(next) }
                advance()
            }
        }
        advance()
    }

    private mutating func scanDollar(into word: inout ShellWord) {
        if isNext("$'") {
            advance()
            return scanQuoted(into: &word)
        }
        word.isDynamic = true
        if isNext("$((") {
            advance()
            skipArithmetic()
        } else if isNext("$(") {
            advance(2)
            scanCommands(until: ")")
        } else if isNext("${") {
            scanExpansion(into: &word)
        } else {
            word.text.append("$")
            advance()
            if let next, "@*#?$!".contains(next) {
                word.text.append(next)
                advance()
            }
        }
    }

    private mutating func scanExpansion(into word: inout ShellWord) {
        word.text += "${"
        advance(2)
        while let character = next, character != "}" {
            switch character {
            case "$": scanDollar(into: &word)
            case "'": scanQuoted(into: &word)
            case "\"": scanDoubleQuoted(into: &word)
            default:
                if character == "\\" { advance() }
                if let next { word.text.append(next) }
                advance()
            }
        }
        word.text += "}"
        advance()
    }
}
