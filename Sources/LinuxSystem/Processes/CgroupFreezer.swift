// SPDX-License-Identifier: Apache-2.0

/// Tells whether a control group of either version freezes a thread.
///
/// The kernel reports no signal for it: the thread is interrupted and cannot go on waiting.
package enum CgroupFreezer {
    /// The conventional mounts of the hierarchies: version 2 alone, or beside version 1.
    private static let places = ["", "/unified"]

    package static func isFreezing(thread: Int32) -> Bool {
        guard let text = readSmallFile("/proc/\(thread)/cgroup") else { return false }
        return text.split(separator: UInt8(ascii: "\n")).contains { line in
            // `0::/path`, or `7:freezer:/path`.
            let parts = line.split(
                separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { return false }
            let (controllers, path) = (parts[1], String(decoding: parts[2], as: UTF8.self))
            if controllers.isEmpty { return isFrozenByVersion2(path) }
            return controllers.elementsEqual("freezer".utf8) && isFrozenByVersion1(path)
        }
    }

    /// A frozen group freezes its subgroups.
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
