// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A scenario file: steps with the output that each is expected to print.
///
///     # actors, action, reason
///     claim 1 reading
///     ----
///     grant #1
///
/// `UPDATE_SCENARIOS=1 swift test` rewrites the expectations; review the diff.
public struct Scenario {
    public struct Step: Sendable {
        public var comment: [String]
        public var command: String
        public var expected: String
    }

    public var steps: [Step] = []

    public init(parsing text: String) {
        var comment: [String] = []
        var command: String?
        var expected: [String] = []
        var inOutput = false
        func flush(_ steps: inout [Step]) {
            guard let command else { return }
            steps.append(Step(comment: comment, command: command, expected: expected.joined(separator: "\n")))
        }
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line == "----" {
                inOutput = true
            } else if line.isEmpty {
                flush(&steps)
                (comment, command, expected, inOutput) = ([], nil, [], false)
            } else if inOutput {
                expected.append(line)
            } else if line.hasPrefix("#") {
                comment.append(line)
            } else {
                command = line
            }
        }
        flush(&steps)
    }

    public var text: String {
        steps.map { step in
            (step.comment + [step.command, "----", step.expected]).joined(separator: "\n")
        }.joined(separator: "\n\n") + "\n"
    }
}

public var isUpdatingScenarios: Bool { getenv("UPDATE_SCENARIOS") != nil }

public func readFile(_ path: String) -> String? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
        let count = fread(&buffer, 1, buffer.count, file)
        if count == 0 { return String(decoding: bytes, as: UTF8.self) }
        bytes += buffer[..<count]
    }
}

public func writeFile(_ path: String, _ text: String) {
    guard let file = fopen(path, "w") else { return }
    fputs(text, file)
    fclose(file)
}

/// Returns every file below `directory` with this extension, sorted.
public func files(below directory: String, extension suffix: String) -> [String] {
    var found: [String] = []
    var pending = [directory]
    while let directory = pending.popLast() {
        guard let stream = opendir(directory) else { continue }
        defer { closedir(stream) }
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard !name.hasPrefix(".") else { continue }
            let path = directory + "/" + name
            if entry.pointee.d_type == DT_DIR { pending.append(path) }
            if name.hasSuffix("." + suffix) { found.append(path) }
        }
    }
    return found.sorted()
}
