// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// The command's arguments as the bytes that the user typed. Swift's own arguments would not do: Swift replaces bytes
/// that are not UTF-8, so a path would be another path.
enum RawArgument {
    static func bytes(of argument: String) throws(CommandFailure) -> [UInt8] {
        let utf8 = Array(argument.utf8)
        var found: [[UInt8]] = []
        for index in 0..<Int(CommandLine.argc) {
            guard let pointer = CommandLine.unsafeArgv[index] else { continue }
            let raw = UnsafeBufferPointer(start: pointer, count: strlen(pointer)).map {
                UInt8(bitPattern: $0)
            }
            if raw == utf8 { return raw }
            if String(decoding: raw, as: UTF8.self) == argument, !found.contains(raw) { found.append(raw) }
        }
        guard found.count < 2 else {
            throw CommandFailure(.usage, "two arguments differ only in bytes that are not UTF-8")
        }
        return found.first ?? utf8
    }

    /// Returns the words behind `--`, as the user typed them.
    static func afterTerminator(_ words: [String]) throws(CommandFailure) -> [[UInt8]] {
        let all = (0..<Int(CommandLine.argc)).compactMap { index in
            CommandLine.unsafeArgv[index].map { pointer in
                UnsafeBufferPointer(start: pointer, count: strlen(pointer)).map { UInt8(bitPattern: $0) }
            }
        }
        let typed = all.drop { !$0.elementsEqual("--".utf8) }.dropFirst()
        guard typed.map({ String(decoding: $0, as: UTF8.self) }) == words else {
            throw CommandFailure(.usage, "'--' is not the first argument that says '--'")
        }
        return Array(typed)
    }

    /// Returns an argument as text; fails if the argument is not UTF-8.
    static func text(of argument: String) throws(CommandFailure) -> String {
        guard try bytes(of: argument) == Array(argument.utf8) else {
            throw CommandFailure(.usage, "the path '\(argument)' is not UTF-8, which a mount cannot have")
        }
        return argument
    }
}
