// SPDX-License-Identifier: Apache-2.0

/// Every external program that scripts and tests call is named in `Scripts/lib/packages`.
///
/// How a call is recognised, so that none is forgotten:
/// - in bash: the name of every simple command. A function that calls its own arguments (`"$@"`) is a prefix and
///   has to be in the table `prefixes`, so that what follows it counts as a command too; what `bash -c` is given in
///   quotes is read as well;
/// - in python: scripts start no programs at all;
/// - in Swift tests: `Program("vim")` with a literal names a program, `Script("…")` with a literal is shell text that
///   is read as a script is. Both are TestSupport's; elsewhere a test may neither start a process by itself nor
///   name a path of a program nor start a shell as a program.
struct InstallList {
    let programs: Set<String>

    init(parsing text: String) {
        var programs: Set<String> = []
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            programs.formUnion(line.split(separator: " ").dropFirst(2).map(String.init))
        }
        self.programs = programs
    }

    /// Commands that start the command in their arguments, and how many arguments come before it. Options and
    /// assignments do not count.
    static let prefixes: [String: Int] = [
        "sudo": 0, "env": 0, "exec": 0, "command": 0, "timeout": 1, "xargs": 0, "unshare": 0, "setpriv": 0,
        "strace": 0, "as_root": 0, "as_owner": 0, "in_lab": 0, "check": 1, "verdict": 1, "until_gone": 0,
        "expect": 1,
        "timed": 0, "hold": 0,
        "processes_inside": 1,
        "process_links": 0, "test_run": 2, "rightly": 0, "eventually": 1, "fetch": 0,
    ]

    /// Options whose value is a word of its own.
    static let optionsWithValue: Set<String> = ["--propagation"]

    static let builtins: Set<String> = [
        ":", ".", "[", "break", "builtin", "cd", "command", "continue", "declare", "echo", "eval", "exec",
        "exit", "export", "for", "jobs", "kill", "let", "local", "mapfile", "printf", "pwd", "read",
        "readonly",
        "return", "set", "shift", "shopt", "source", "test", "trap", "true", "type", "ulimit", "umask",
        "unset", "wait",
    ]

    /// `functions` are those of all scripts: a script may call what a file it sources defines.
    func findings(inShell source: String, path: String, firstLine: Int = 1, functions: Set<String>)
        -> [Finding]
    {
        let scanner = ShellScanner(source)
        let known = functions.union(scanner.functions)
        return scanner.commands.flatMap { command -> [Finding] in
            let line = command.line + firstLine - 1
            if let function = command.function, callsItsArguments(command), Self.prefixes[function] == nil {
                return [
                    Finding(
                        path: path, line: line, what: "\(function) calls its arguments and is no known prefix"
                    )
                ]
            }
            let inner = Self.texts(in: command).flatMap {
                findings(inShell: $0, path: path, firstLine: line, functions: known)
            }
            let unknown = Self.calls(of: command.words[...])
                .filter { !programs.contains($0) && !known.contains($0) && !Self.builtins.contains($0) }
                // A script of our own.
                .filter { !$0.hasPrefix("./") }
                .map { Finding(path: path, line: line, what: "\($0) is in no package of the install list") }
            return inner + unknown
        }
    }

    /// What a command hands to a shell by `-c`, as far as it is there to be read.
    private static func texts(in command: ShellCommand) -> [String] {
        let words = command.words
        return words.indices.dropLast(2).compactMap { index in
            let (option, text) = (words[index + 1].text, words[index + 2])
            guard ["bash", "sh"].contains(words[index].text), option.firstMatch(of: /^-\w*c$/) != nil else {
                return nil
            }
            return text.isDynamic ? nil : text.text
        }
    }

    private func callsItsArguments(_ command: ShellCommand) -> Bool {
        command.words[0].text.hasPrefix("$@") || command.words[0].text.hasPrefix("${@")
    }

    /// The literal names a command calls: its own, and that of the command it is a prefix of. A built-in command
    /// that is started by a prefix is a program.
    static func calls(of words: ArraySlice<ShellWord>) -> [String] {
        guard let name = words.first, !name.isDynamic else { return [] }
        // `command -v NAME` asks for a program and starts none.
        if name.text == "command", words.dropFirst().first?.text == "-v" { return [] }
        var found = [name.text]
        if let skipped = prefixes[name.text] {
            let arguments = zip(words, words.dropFirst())
                .filter { before, word in
                    !word.text.hasPrefix("-") && !word.text.contains("=")
                        && !optionsWithValue.contains(before.text)
                }
                .map(\.1)
            found += calls(of: arguments.dropFirst(skipped)[...])
        }
        if name.text == "find", let executed = words.firstIndex(where: { $0.text.hasPrefix("-exec") }) {
            found += calls(of: words[(executed + 1)...])
        }
        return found
    }

    static func findings(inPython file: TextFile) -> [Finding] {
        file.findings(
            of: /\bsubprocess\b|\bos\.(system|popen|exec\w*|spawn\w*|posix_spawn\w*)\b/, in: file.lines,
            "a python script starts no programs")
    }

    func findings(inSwift file: TextFile, functions: Set<String>) -> [Finding] {
        let doors =
            /\b(posix_spawnp?|exec[vl]p?e?|popen|system|Process)\(|"\/(usr\/)?s?bin\/|Program\(\s*"(ba|da|z)?sh"/
        let lines = file.lines.map { $0.firstMatch(of: /^\s*\/\//) == nil ? $0 : "" }
        let text = lines.joined(separator: "\n")
        func line(_ index: String.Index) -> Int { text[..<index].filter { $0 == "\n" }.count + 1 }

        var found = file.findings(of: doors, in: lines, "programs are started by Program(\"name\") only")
        for call in text.matches(of: /\b(Program|Script)\(\s*(?![\s"])/) {
            found.append(Finding(path: file.path, line: line(call.range.lowerBound), what: "not a literal"))
        }
        for call in text.matches(of: /\bProgram\(\s*"([^"]*)"/) where !programs.contains(String(call.1)) {
            let what = "\(call.1) is in no package of the install list"
            found.append(Finding(path: file.path, line: line(call.range.lowerBound), what: what))
        }
        for call in text.matches(of: /\bScript\(\s*(?:"""(?<long>[\s\S]*?)"""|"(?<short>(?:[^"\\]|\\.)*)")/) {
            // An interpolation is a word the shell does not know beforehand, as a variable is.
            let source = String(call.long ?? call.short ?? "")
                .replacing(/\\\([^()]*(\([^()]*\)[^()]*)*\)/, with: "$interpolated").replacing(
                    "\\\"", with: "\""
                )
                .replacing("\\\\", with: "\\").replacing("\\n", with: "\n")
            found += findings(
                inShell: source, path: file.path, firstLine: line(call.range.lowerBound), functions: functions
            )
        }
        return found
    }
}
