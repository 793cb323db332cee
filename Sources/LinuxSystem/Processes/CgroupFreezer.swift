// SPDX-License-Identifier: Apache-2.0

/// Finds out whether a control group, of version 1 or 2, freezes a thread.
///
/// The kernel sends no signal to a thread of a frozen group. It only interrupts the thread's wait.
package enum CgroupFreezer {
    /// The usual directories of version 2 below `/sys/fs/cgroup`: the top directory if only version 2 is in use, `unified` if
    /// version 1 is in use as well.
    private static let places = ["", "/unified"]

    package static func isFreezing(thread: Int32) -> Bool {
        guard let text = readSmallFile("/proc/\(thread)/cgroup") else { return false }
        return text.split(separator: UInt8(ascii: "\n")).contains { line in
            // A line of version 2 is `0::/path`, and a line of version 1 is `7:freezer:/path`.
            let parts = line.split(
                separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { return false }
            let (controllers, path) = (parts[1], String(decoding: parts[2], as: UTF8.self))
            if controllers.isEmpty { return isFrozenByVersion2(path) }
            return controllers.elementsEqual("freezer".utf8) && isFrozenByVersion1(path)
        }
    }

    /// Returns whether the group, or a group that contains it, is frozen. A frozen group freezes the groups inside it.
    private static func isFrozenByVersion2(_ path: String) -> Bool {
        var group = path
        while group.count > 1 {
            let says = places.compactMap { readSmallFile("/sys/fs/cgroup\($0)\(group)/cgroup.freeze")?.first }
            if says.contains(UInt8(ascii: "1")) { return true }
            group = group.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
        }
        return false
    }

    private static func isFrozenByVersion1(_ path: String) -> Bool {
        guard let state = readSmallFile("/sys/fs/cgroup/freezer\(path)/freezer.state") else { return false }
        return !state.starts(with: "THAWED".utf8)
    }
}
