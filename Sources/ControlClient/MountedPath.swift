// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// A path in a mount of ours; its last parts may be gone or not there yet.
package struct MountedPath: Hashable, Sendable {
    package let mount: MountEntry
    /// Below the root of the mount, as the protocol has it: empty for the root itself.
    package let pathInMount: [UInt8]

    /// Of what a path leads to.
    package init(_ path: [UInt8]) throws(ClientFailure) {
        try self.init(path, resolving: ResolvedPath.bytes(ofMaybeMissing:))
    }

    /// Of the path itself: if the last name is that of a symbolic link, that is meant and not what it leads to.
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
            throw ClientFailure(.failed, "'\(path.printable)' cannot be looked at: \(error)")
        }
        guard let mount = try MountFinder.table().containing(resolved), mount.isTruce else {
            throw ClientFailure(.notFound, "'\(resolved.printable)' is not in a folder mounted by truce")
        }
        self.mount = mount
        pathInMount = Array(resolved.dropFirst(mount.mountpoint.count).drop { $0 == UInt8(ascii: "/") })
    }

    /// For a mount that is known.
    package init(_ pathInMount: [UInt8], in mount: MountEntry) {
        self.mount = mount
        self.pathInMount = pathInMount
    }

    /// Where something in the mount is for everybody else.
    package func absolute(_ pathInMount: [UInt8]) -> [UInt8] {
        mount.mountpoint + (pathInMount.isEmpty ? [] : [UInt8(ascii: "/")]) + pathInMount
    }

    package var absolute: [UInt8] { absolute(pathInMount) }
}
