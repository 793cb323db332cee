// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Decides which directories are packages. Users see a package as a single document.
enum PackageDetection {
    /// The extended attribute that marks a directory as a package. Its value is not used. Only the directory's owner may set
    /// it.
    static let attribute = "user.truce.package"

    /// The extensions of documents that are directories, in lower case.
    private static let extensions: Set<[UInt8]> = Set(
        [
            // Documents of TextEdit, of Markdown editors, of Scrivener and of Ulysses.
            "rtfd", "textbundle", "scriv", "ulysses",
            // Weak packages: programs take turns with the whole package, but each file has versions of its own.
            "weakpkg",
            // Documents of Pages, Numbers, Keynote, OmniGraffle and OmniOutliner.
            "pages", "numbers", "key", "graffle", "oo3",
            // Documents of GarageBand, Logic, Final Cut and Photos.
            "band", "logicx", "fcpbundle", "photoslibrary",
        ].map { Array($0.utf8) })

    static func isPackage(_ directory: Node) -> Bool {
        guard !directory.isRoot else { return false }
        return hasExtension(directory.location.name) || isMarked(directory)
    }

    /// Whether a directory with this name is a package, even if it has no mark.
    static func hasExtension(_ name: NameBytes) -> Bool {
        guard let dot = name.bytes.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return false }
        let ending = name.bytes[(dot + 1)...].map { (65...90).contains($0) ? $0 + 32 : $0 }
        return extensions.contains(ending)
    }

    private static func isMarked(_ directory: Node) -> Bool {
        do throws(Errno) {
            let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
            _ = try directory.descriptor().descriptor.extendedAttribute(attribute, into: none)
            return true
        } catch {
            // Most file systems report an error because the attribute is missing. Some file systems support no extended
            // attributes.
            return false
        }
    }
}
