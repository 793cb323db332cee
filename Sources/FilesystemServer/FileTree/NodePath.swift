// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Determines where a node is in the tree, and reads the status of the node's file.
extension Node {
    /// The path of the file, from the source's root.
    var path: [UInt8] {
        var parts: [[UInt8]] = []
        var next: Node? = self
        while let node = next, !node.isRoot {
            let (name, parent, _) = node.location
            parts.append(name.bytes)
            next = parent
        }
        return Array(parts.reversed().joined(separator: [UInt8(ascii: "/")]))
    }

    /// Whether the node is the directory itself, or is below it at any depth.
    func isBelow(_ directory: Node) -> Bool {
        var next: Node? = self
        while let node = next {
            if node === directory { return true }
            next = node.isRoot ? nil : node.parent
        }
        return false
    }

    /// The present status of the file; nil if it cannot be read.
    var presentStatus: FileStatus? {
        do throws(Errno) { return try descriptor().descriptor.status() } catch { return nil }
    }

    /// Whether the directory has no entries, so that it can be removed.
    var isEmptyDirectory: Bool {
        do throws(Errno) {
            let opened = try descriptor().descriptor.reopen(flags: O_RDONLY | O_DIRECTORY)
            var stream = try DirectoryStream(reading: opened)
            var isEmpty = true
            try stream.forEach(from: 0) { name, _, _, _ in
                isEmpty = name.isSelfOrParent
                return isEmpty
            }
            return isEmpty
        } catch {
            // The later removal of the directory will fail with the same error, and the caller reports that error.
            return false
        }
    }
}
