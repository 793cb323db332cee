// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// Makes paths absolute and follows their symbolic links. This also works if the daemon of a mount in the path is dead.
package enum ResolvedPath {
    package static func bytes(of path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try real(path)
        } catch {
            guard error == .notConnected else { throw error }
            // The last name can be the mountpoint of a dead daemon, which cannot be examined. So only the path of the
            // parent directory is resolved.
            let absolute = try absolute(path)
            guard let slash = absolute.lastIndex(of: UInt8(ascii: "/")) else { throw error }
            let parent = try real(Array(absolute[...slash]))
            return parent + (parent == [UInt8(ascii: "/")] ? [] : [UInt8(ascii: "/")])
                + absolute[(slash + 1)...]
        }
    }

    /// Resolves a path to an item that need not exist. A user can ask for the versions of a file after the file and its
    /// directory were deleted.
    ///
    /// Below the mountpoint of a dead daemon, all names are treated as missing, and symbolic links are not followed.
    package static func bytes(ofMaybeMissing path: [UInt8]) throws(Errno) -> [UInt8] {
        do throws(Errno) {
            return try bytes(of: path)
        } catch {
            guard error == .noEntry || error == .notConnected else { throw error }
            let slash = UInt8(ascii: "/")
            let absolute = try absolute(path)
            guard let last = absolute.lastIndex(of: slash), last > 0 else { throw error }
            let name = absolute[(last + 1)...]
            // A `..` after a missing directory cannot be resolved, because the place of the missing directory is unknown.
            guard !name.elementsEqual("..".utf8) else { throw error }
            return try bytes(ofMaybeMissing: Array(absolute[..<last])) + [slash] + name
        }
    }

    /// Resolves a path. If its last name is a symbolic link, that link is not followed.
    package static func bytes(unfollowed path: [UInt8]) throws(Errno) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let absolute = try absolute(path)
        guard let last = absolute.lastIndex(of: slash), absolute.count > 1 else { return absolute }
        let name = absolute[(last + 1)...]
        guard !name.elementsEqual("..".utf8) else { return try bytes(of: absolute) }
        let parent = try bytes(ofMaybeMissing: last == 0 ? [slash] : Array(absolute[..<last]))
        return parent + (parent == [slash] ? [] : [slash]) + name
    }

    /// Makes a path absolute, and removes `.` parts and trailing slashes.
    ///
    /// The function changes only the text of the path. It sends no request to a mount, not even for the path of the working
    /// directory.
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
