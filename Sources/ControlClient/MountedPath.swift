// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// A path in a Truce mount. The file and some of the directories on the path need not exist.
package struct MountedPath: Hashable, Sendable {
    package let mount: MountEntry
    /// The path relative to the root of the mount, in the form of the protocol; empty for the root itself.
    package let pathInMount: [UInt8]

    /// Finds the mount that contains a path. Follows all symbolic links in the path.
    package init(_ path: [UInt8]) throws(ClientFailure) {
        try self.init(path, resolving: ResolvedPath.bytes(ofMaybeMissing:))
    }

    /// Finds the mount that contains a path. Follows the symbolic links in the path, but not a link with the last name of the
    /// path.
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

    /// Makes a path in a mount that the caller has already found.
    package init(_ pathInMount: [UInt8], in mount: MountEntry) {
        self.mount = mount
        self.pathInMount = pathInMount
    }

    /// The absolute path of an item, from its path relative to the root of the mount.
    package func absolute(_ pathInMount: [UInt8]) -> [UInt8] {
        mount.mountpoint + (pathInMount.isEmpty ? [] : [UInt8(ascii: "/")]) + pathInMount
    }

    package var absolute: [UInt8] { absolute(pathInMount) }
}
