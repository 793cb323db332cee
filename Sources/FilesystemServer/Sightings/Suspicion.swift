// SPDX-License-Identifier: Apache-2.0
package import VersionStore

/// A possible unseen overwrite: a program replaces a generation that it has not read, although it has read an older one. The
/// replaced contents are preserved. When the program has saved, the contents are compared (D228).
package struct Suspicion: Sendable {
    /// The version with the replaced contents.
    package let version: VersionID
    /// The anchor that replaces the contents.
    package let saver: Anchor
    /// The generation that is replaced.
    package let replaced: UInt64
    /// The contents that the saver had read; nil if they are not known. Without them, more changes count as a loss.
    package private(set) var base: [UInt8]?
    /// The contents that the saver's children have written since; nil if there are none, or if they are not known. Perhaps the
    /// saver does not know them (D223).
    package private(set) var written: [UInt8]?

    package init(
        _ version: VersionID, saver: Anchor, replaced: UInt64, base: [UInt8]?, written: [UInt8]? = nil
    ) {
        self.version = version
        self.saver = saver
        self.replaced = replaced
        self.base = base
        self.written = written
    }

    /// The bytes of memory of the known contents.
    package var baseSize: Int { (base?.count ?? 0) + (written?.count ?? 0) }

    package mutating func forgetBase() { (base, written) = (nil, nil) }
}
