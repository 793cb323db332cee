// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// How much a store preserves (D193).
package struct StoreLimits: Hashable, Sendable {
    /// The bytes that the versions of one owner's files may take.
    package var room = 1 << 30
    /// The same limit in percent of the file system; the smaller limit applies.
    package var share = 10
    /// How long a version is preserved.
    package var age = TimeSpan.seconds(30 * 24 * 60 * 60)
    /// The most versions of one document.
    package var versions = 100
    /// How long a version certainly stays, unless the disk has no room.
    package var certain = TimeSpan.seconds(60 * 60)

    package init() {}

    /// Returns the bytes for one owner on a file system of `size` bytes.
    func room(ofFilesystem size: Int) -> Int { min(room, size / 100 * share) }
}
