// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// Resolves absolute paths without asking a mount that may have a dead daemon.
package enum ResolvedPath {
    package static func bytes(of path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try real(path)
        } catch {
            guard error == .notConnected else { throw error }
            // The last part is a mount with a dead daemon; the part before it can be resolved.
            let absolute = try absolute(path)
            guard let slash = absolute.lastIndex(of: UInt8(ascii: "/")) else { throw error }
            let parent = try real(Array(absolute[...slash]))
            return parent + (parent == [UInt8(ascii: "/")] ? [] : [UInt8(ascii: "/")])
                + absolute[(slash + 1)...]
        }
    }

    /// Resolves a path with last parts that may be missing, because versions outlive the name of their file.
    ///
    /// This also works in a mount with a dead daemon. It is unknown there which names are links.
    package static func bytes(ofMaybeMissing path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try bytes(of: path)
        } catch {
            guard error == .noEntry || error == .notConnected else { throw error }
            let slash = UInt8(ascii: "/")
            let absolute = try absolute(path)
            guard let last = absolute.lastIndex(of: slash), last > 0 else { throw error }
            let name = absolute[(last + 1)...]
            // The parent of a missing directory is unknown.
            guard !name.elementsEqual("..".utf8) else { throw error }
            return try bytes(ofMaybeMissing: Array(absolute[..<last])) + [slash] + name
        }
    }

    /// Resolves a path, but does not follow a symbolic link as its last name.
    package static func bytes(unfollowed path: [UInt8]) throws(Errno) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let absolute = try absolute(path)
        guard let last = absolute.lastIndex(of: slash), absolute.count > 1 else { return absolute }
        let name = absolute[(last + 1)...]
        guard !name.elementsEqual("..".utf8) else { return try bytes(of: absolute) }
        let parent = try bytes(ofMaybeMissing: last == 0 ? [slash] : Array(absolute[..<last]))
        return parent + (parent == [slash] ? [] : [slash]) + name
    }

    /// Makes a path absolute by its text, without `.` and a trailing slash.
    ///
    /// The working directory's name needs no file system.
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
