// SPDX-License-Identifier: Apache-2.0

extension ProcessInspection {
    /// Returns the values of variables in the environment with which a process began its program, in the order of `names`.
    ///
    /// A value is nil if the variable is missing, or if this process may not read the environment. The process itself can
    /// change its environment, so the values prove nothing beyond what the user of the process may say.
    package static func environment(ofProcess process: Int32, _ names: [String]) -> [[UInt8]?] {
        let text = sharesProcfs ? readSmallFile("/proc/\(process)/environ") ?? [] : []
        return environment(in: text, names)
    }

    /// Finds variables in a text of the form of `/proc/PID/environ`.
    package static func environment(in text: [UInt8], _ names: [String]) -> [[UInt8]?] {
        var values = [[UInt8]?](repeating: nil, count: names.count)
        let prefixes = names.map { Array("\($0)=".utf8) }
        for entry in text.split(separator: 0) {
            for (index, prefix) in prefixes.enumerated()
            where values[index] == nil && entry.starts(with: prefix) {
                values[index] = Array(entry.dropFirst(prefix.count))
            }
        }
        return values
    }
}
