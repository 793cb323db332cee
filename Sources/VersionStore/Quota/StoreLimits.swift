// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The limits for the versions in a store: bytes, age and number (D193: versions are charged to the document's owner).
package struct StoreLimits: Hashable, Sendable {
    /// The most bytes of all versions of one owner's files. The limit by `share` applies in addition.
    package var room = 1 << 30
    /// The most room for all versions of one owner's files, in percent of the file system. The smaller of this limit and `room`
    /// applies.
    package var share = 10
    /// The age after which a version is removed.
    package var age = TimeSpan.seconds(30 * 24 * 60 * 60)
    /// The most versions of one document.
    package var versions = 100
    /// The time for which a version certainly stays, unless the disk is full.
    package var certain = TimeSpan.seconds(60 * 60)

    package init() {}

    /// Returns the most bytes for the versions of one owner, on a file system of `size` bytes.
    func room(ofFilesystem size: Int) -> Int { min(room, size / 100 * share) }
}

/// The limits of the versions that `keep = "writes"` preserves for one document.
package struct KeptWritesLimits: Hashable, Sendable {
    /// The age after which a version is removed.
    package var age: TimeSpan
    /// The most versions.
    package var versions: Int

    package init(age: TimeSpan, versions: Int) { (self.age, self.versions) = (age, versions) }
}
