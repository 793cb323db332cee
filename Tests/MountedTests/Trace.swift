// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport

/// Some of the system calls of a daemon, as they are made; for root.
final class Trace {
    private let file: String
    private let tracer: RunningProgram

    /// `calls` as strace names them, separated by commas.
    init(_ calls: String, of process: Int32) throws {
        file = try Lab.freshDirectory("trace") + "/calls"
        tracer = try Program("strace").start(
            "--follow-forks", "--const-print-style=raw", "--trace=\(calls)", "--output=\(file)",
            "--attach=\(process)")
        try eventually(within: .seconds(20), "strace to follow process \(process)\n\(tracer.errorText)") {
            if tracer.hasEnded { throw Failure("strace: \(tracer.errorText)") }
            return tracer.errorText.contains("attached")
        }
    }

    var text: String { Contents.ofFile(file).map { String(decoding: $0, as: UTF8.self) } ?? "" }

    /// How many calls have the words among their arguments.
    func count(_ words: String) -> Int { text.split(separator: "\n").count { $0.contains(words) } }

    /// The daemon goes on without it.
    func end() throws {
        tracer.send(SIGINT)
        _ = try tracer.wait(within: .seconds(10))
    }
}
