// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Foundation
import LinuxSystem

/// The mount that contains the item of a URL, and the path of the item in that mount.
struct FileLocation: Sendable {
    let connection: MountConnection
    /// The path of the item relative to the root of the mount; empty for the root itself.
    let pathInMount: [UInt8]
    /// Whether the URL that the caller gave ends like the URL of a directory.
    let isDirectory: Bool

    init(_ url: URL) throws(FileCoordinationError) {
        guard url.isFileURL else {
            throw FileCoordinationError(.notAFile, "'\(url.absoluteString)' is not the URL of a file")
        }
        let path = url.withUnsafeFileSystemRepresentation { pointer in
            pointer.map { UnsafeBufferPointer(start: $0, count: strlen($0)).map { UInt8(bitPattern: $0) } }
                ?? []
        }
        guard !path.isEmpty else { throw FileCoordinationError(.notAFile, "the URL has no path") }
        do throws(ClientFailure) {
            let mounted = try MountedPath(unfollowed: path)
            connection = MountConnection.connection(to: mounted.mount.mountpoint)
            pathInMount = mounted.pathInMount
        } catch {
            throw FileCoordinationError(error)
        }
        isDirectory = url.hasDirectoryPath
    }

    var url: URL { connection.url(pathInMount, isDirectory: isDirectory) }
}
