// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// A path in a Truce mount; its last parts may be missing.
package struct MountedPath: Hashable, Sendable {
    package let mount: MountEntry
    /// The path relative to the root of the mount, as in the protocol; empty for the root.
    package let pathInMount: [UInt8]

    /// Finds the mount of a path, following links.
    package init(_ path: [UInt8]) throws(ClientFailure) {
        try self.init(path, resolving: ResolvedPath.bytes(ofMaybeMissing:))
    }

    /// Finds the mount of a path; a symbolic link as its last name is not followed.
    package init(unfollowed path: [UInt8]) throws(ClientFailure) {
        try self.init(path, resolving: ResolvedPath.bytes(unfollowed:))
    }

    private init(
        _ path: [UInt8], resolving resolve: ([UInt8]) throws(Errno) -> [UInt8]
    ) throws(ClientFailure) {
        let resolved: [UInt8]
        do throws(Errno) {
            resolved = try resolve(path)
        } catch .noEntry {
            throw ClientFailure(.notFound, "'\(path.printable)' does not exist")
        } catch {
            throw ClientFailure(.failed, "'\(path.printable)' cannot be examined: \(error)")
        }
        guard let mount = try MountFinder.table().containing(resolved), mount.isTruce else {
            throw ClientFailure(.notFound, "'\(resolved.printable)' is not in a folder mounted by truce")
        }
        self.mount = mount
        pathInMount = Array(resolved.dropFirst(mount.mountpoint.count).drop { $0 == UInt8(ascii: "/") })
    }

    /// Makes a path in a known mount.
    package init(_ pathInMount: [UInt8], in mount: MountEntry) {
        self.mount = mount
        self.pathInMount = pathInMount
    }

    /// The absolute path of an item in the mount.
    package func absolute(_ pathInMount: [UInt8]) -> [UInt8] {
        mount.mountpoint + (pathInMount.isEmpty ? [] : [UInt8(ascii: "/")]) + pathInMount
    }

    package var absolute: [UInt8] { absolute(pathInMount) }
}
