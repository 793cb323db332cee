// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A scenario file: commands, each with the expected output in indented lines below it.
///
///     # actors, action, reason
///     claim 1 reading
///         grant #1
///
/// `UPDATE_SCENARIOS=1 swift test` writes the real output into the file in place of the expected output. Review the difference
/// afterwards.
public struct Scenario {
    public struct Step: Sendable {
        public var comment: [String] = []
        public var command: String
        public var expected: [String] = []
    }

    public var steps: [Step] = []

    private static let indentation = "    "

    public init(parsing text: String) {
        var comment: [String] = []
        for line in text.split(separator: "\n").map(String.init) {
            if line.hasPrefix(Self.indentation), !steps.isEmpty {
                steps[steps.count - 1].expected.append(String(line.dropFirst(Self.indentation.count)))
            } else if line.hasPrefix("#") {
                comment.append(line)
            } else {
                steps.append(Step(comment: comment, command: line))
                comment = []
            }
        }
    }

    public var text: String {
        let lines = steps.flatMap { $0.comment + [$0.command] + $0.expected.map { Self.indentation + $0 } }
        return lines.joined(separator: "\n") + "\n"
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

/// Returns all files below `directory` with this extension, sorted.
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
