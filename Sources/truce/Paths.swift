// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// The bytes that were typed. Swift repairs arguments that are not UTF-8, and a repaired path is another.
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

    /// What stands behind `--`: a command line, as it was typed.
    static func behindTerminator(_ words: [String]) throws(CommandFailure) -> [[UInt8]] {
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

    /// For the places that can only take text.
    static func text(of argument: String) throws(CommandFailure) -> String {
        guard try bytes(of: argument) == Array(argument.utf8) else {
            throw CommandFailure(.usage, "the path '\(argument)' is not UTF-8, which a mount cannot have")
        }
        return argument
    }
}

/// Absolute paths without links, found without asking a mount that may be dead.
enum ResolvedPath {
    static func bytes(of path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try real(path)
        } catch {
            guard error == .notConnected else { throw error }
            // The last part is a dead mount, and what stands before it is not.
            let absolute = try absolute(path)
            guard let slash = absolute.lastIndex(of: UInt8(ascii: "/")) else { throw error }
            let parent = try real(Array(absolute[...slash]))
            return parent + (parent == [UInt8(ascii: "/")] ? [] : [UInt8(ascii: "/")])
                + absolute[(slash + 1)...]
        }
    }

    /// The same for a path whose last parts may be gone: what was kept of a file outlives its name.
    static func bytes(ofMaybeMissing path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try bytes(of: path)
        } catch {
            guard error == .noEntry else { throw error }
            let slash = UInt8(ascii: "/")
            let absolute = try absolute(path)
            guard let last = absolute.lastIndex(of: slash), last > 0 else { throw error }
            let name = absolute[(last + 1)...]
            // What stands above a directory that is not there is anybody's guess.
            guard !name.elementsEqual("..".utf8) else { throw error }
            return try bytes(ofMaybeMissing: Array(absolute[..<last])) + [slash] + name
        }
    }

    /// By the text alone: no trailing slash, no `.`; the working directory's name asks no file system.
    private static func absolute(_ path: [UInt8]) throws(Errno) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        var whole = path
        if path.first != slash {
            guard let directory = getcwd(nil, 0) else { throw .last }
            defer { free(directory) }
            whole = Array(String(cString: directory).utf8) + [slash] + path
        }
        let names = whole.split(separator: slash).filter { !$0.elementsEqual(".".utf8) }
        return [slash] + Array(names.joined(separator: [slash]))
    }

    private static func real(_ path: [UInt8]) throws(Errno) -> [UInt8] {
        let resolved = path.withPath { realpath($0, nil) }
        guard let resolved else { throw .last }
        defer { free(resolved) }
        return UnsafeBufferPointer(start: resolved, count: strlen(resolved)).map { UInt8(bitPattern: $0) }
    }
}

extension [UInt8] {
    /// For people: what is not UTF-8 is shown by replacement characters.
    var shown: String { String(decoding: self, as: UTF8.self).shown }
}

extension String {
    /// For a terminal, which would obey control characters in the name of a file or a program.
    var shown: String {
        guard unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            return self
        }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.properties.generalCategory == .control {
                text += "\\x" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
    }
}
