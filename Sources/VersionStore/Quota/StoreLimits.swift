// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// How much a store keeps (D193).
package struct StoreLimits: Hashable, Sendable {
    /// The bytes that the versions of one owner's files may take.
    package var room = 1 << 30
    /// The same as a share of the file system, in percent. The smaller of the two counts.
    package var share = 10
    /// For how long a version is kept.
    package var age = TimeSpan.seconds(30 * 24 * 60 * 60)
    /// The versions of one document.
    package var versions = 100
    /// For how long a version is certain to stay, unless there is no room on the disk.
    package var certain = TimeSpan.seconds(60 * 60)

    package init() {}

    /// The bytes for one owner on a file system of a size.
    func room(ofFilesystem size: Int) -> Int { min(room, size / 100 * share) }
}
