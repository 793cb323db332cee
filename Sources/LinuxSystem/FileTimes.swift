// SPDX-License-Identifier: Apache-2.0
import Glibc

/// How finely a file system tells changes apart.
package enum FileTimes {
    /// From include/uapi/linux/magic.h; the four that use multigrain times since Linux 6.13.
    private static let multigrain: Set<Int64> = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994]

    /// Whether a change that follows a look at the times always shows in them.
    package static func areFine(on filesystem: FilesystemStatus) -> Bool {
        guard multigrain.contains(filesystem.magic) else { return false }
        return kernel >= (6, 13)
    }

    private static var kernel: (Int, Int) {
        var name = utsname()
        guard uname(&name) == 0 else { return (0, 0) }
        let release = withUnsafeBytes(of: name.release) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        let parts = release.split { !$0.isNumber }.prefix(2).map { Int($0) ?? 0 }
        return parts.count == 2 ? (parts[0], parts[1]) : (0, 0)
    }
}
