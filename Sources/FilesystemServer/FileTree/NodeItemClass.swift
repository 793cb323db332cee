// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The class of items that follows from the names of a file.
extension Node {
    /// Whether a file with several links keeps its known name when a lookup finds it under another one.
    ///
    /// A tracked document keeps the name under which a program follows it. Otherwise another link must not change the item
    /// class (D127): the link of a backup makes no helper file of a document, and no link makes a document of a log or a
    /// database.
    func retainsName(insteadOf name: NameBytes, in directory: Node) -> Bool {
        if isTracked || isCalled(name, in: directory) { return true }
        let (own, parent, hasName) = location
        let known = itemClass
        guard hasName, let parent, known != .private, known != Self.itemClass(of: name, in: directory) else {
            return false
        }
        // The known name may have been removed out of band.
        do throws(Errno) { return FileKey(try parent.status(of: own)) == key } catch { return false }
    }

    /// The class that follows from a name in a directory.
    static func itemClass(of name: NameBytes, in parent: Node?) -> ItemClass {
        ItemClass(of: name.bytes, in: isInGitDirectory(parent) ? .gitDirectory : .ordinary)
    }

    private static let gitDirectory = NameBytes(Array(".git".utf8))

    private static func isInGitDirectory(_ directory: Node?) -> Bool {
        var next = directory
        while let node = next, !node.isRoot {
            let (name, parent, _) = node.location
            if name == gitDirectory { return true }
            next = parent
        }
        return false
    }
}
