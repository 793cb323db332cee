// SPDX-License-Identifier: Apache-2.0

/// Where a function begins and how many lines it has, first and last included.
struct FunctionExtent: Equatable {
    let line: Int
    let length: Int
}

extension TextFile {
    var functions: [FunctionExtent] {
        switch language {
        case .swift, .c: bracedFunctions
        case .shell: shellFunctions
        case .python: pythonFunctions
        case .other: []
        }
    }

    /// From the line of `func`, `init`, `deinit` or `subscript` to the brace that closes its body. In C, from a
    /// line that begins in the first column and opens a brace.
    private var bracedFunctions: [FunctionExtent] {
        let code = codeLines
        let head =
            language == .swift
            ? /^\s*(?:[@\w()]+\s+)*(?:func\s|init[?(<]|deinit\s|subscript[(<])/ : /^\w[^;={]*\([^;]*\)\s*\{/
        return code.indices.compactMap { start in
            guard code[start].firstMatch(of: head) != nil else { return nil }
            var depth = 0
            var opened = false
            for line in start..<code.count {
                for character in code[line] where character == "{" || character == "}" {
                    depth += character == "{" ? 1 : -1
                    opened = true
                }
                // A requirement of a protocol has no body; the next declaration is not its body.
                if !opened, line > start, code[line].allSatisfy(\.isWhitespace) { return nil }
                if depth < 0 { return nil }
                if opened, depth == 0 { return FunctionExtent(line: start + 1, length: line - start + 1) }
            }
            return nil
        }
    }

    /// From `name() {` to the brace in the first column, or to that at the end of the same line.
    private var shellFunctions: [FunctionExtent] {
        lines.indices.compactMap { start in
            guard lines[start].firstMatch(of: /^\w+\(\)\s*\{/) != nil else { return nil }
            let isOneLine = lines[start].hasSuffix("; }")
            let end = isOneLine ? start : lines[start...].firstIndex { $0 == "}" } ?? lines.endIndex
            return FunctionExtent(line: start + 1, length: end - start + 1)
        }
    }

    /// From `def` to the last line that is indented deeper.
    private var pythonFunctions: [FunctionExtent] {
        lines.indices.compactMap { start in
            guard lines[start].firstMatch(of: /^\s*def\s/) != nil else { return nil }
            let indentation = lines[start].prefix { $0 == " " }.count
            let body = lines[(start + 1)...].prefix { line in
                line.allSatisfy(\.isWhitespace) || line.prefix { $0 == " " }.count > indentation
            }
            let end = body.lastIndex { !$0.allSatisfy(\.isWhitespace) } ?? start
            return FunctionExtent(line: start + 1, length: end - start + 1)
        }
    }
}
