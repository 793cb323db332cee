// SPDX-License-Identifier: Apache-2.0
import Coordination
import Glibc
import LinuxSystem

/// Determines the item class of a file from its names.
extension Node {
    /// Whether a file with several names keeps its known name when a look-up finds the file under another name.
    ///
    /// A tracked document keeps the name under which a program has found it. Any other file keeps its name if the other name
    /// would change the item class (D127). For example, a document stays a document if a backup program links it under the name
    /// of a helper file. A log or database stays one under any link.
    func retainsName(insteadOf name: NameBytes, in directory: Node) -> Bool {
        if isTracked || isCalled(name, in: directory) { return true }
        let (own, parent, hasName) = location
        let known = itemClass
        guard hasName, let parent, known != .private, known != Self.itemClass(of: name, in: directory) else {
            return false
        }
        // If the known name was removed out of band, the file takes the other name.
        do throws(Errno) { return FileKey(try parent.status(of: own)) == key } catch { return false }
    }

    /// The item class of a file with this name in the directory. A user's rule goes before the name.
    static func itemClass(of name: NameBytes, in parent: Node?) -> ItemClass {
        if let parent, let wanted = parent.policies.itemClass(ofFileAt: parent.path(of: name)) {
            return wanted
        }
        return ItemClass(of: name.bytes, in: isInGitDirectory(parent) ? .gitDirectory : .ordinary)
    }

    /// Whether a user's rule gives the file its class, so that its contents have no influence on the class.
    var hasClassByRule: Bool { policies.itemClass(ofFileAt: path) != nil }

    private static let gitDirectory = NameBytes(Array(".git".utf8))

    static func isInGitDirectory(_ directory: Node?) -> Bool {
        var next = directory
        while let node = next, !node.isRoot {
            let (name, parent, _) = node.location
            if name == gitDirectory { return true }
            next = parent
        }
        return false
    }
}

extension NodeTable {
    /// Drops the item classes of all files, because rules for classes or the path of a directory have changed. Claims of open
    /// files stay as they are.
    func resetClasses() {
        for node in all where node.kind != S_IFDIR { node.resetClass() }
    }
}
