// SPDX-License-Identifier: Apache-2.0
import VersionStore

/// A possible unseen overwrite: a program replaces a generation that it has not read, although it has read an older one. The
/// replaced contents are preserved. When the program has saved, the contents are compared (D228).
final class Suspicion: Sendable {
    /// The version with the replaced contents.
    let version: VersionID
    /// The anchor that replaces the contents.
    let saver: Anchor
    /// The generation that is replaced.
    let replaced: UInt64
    /// The contents that the saver had read; nil if they are not known.
    let base: [UInt8]?

    init(_ version: VersionID, saver: Anchor, replaced: UInt64, base: [UInt8]?) {
        self.version = version
        self.saver = saver
        self.replaced = replaced
        self.base = base
    }
}
