// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Names the contents of a file by what the file system below has of the file. A later change of the contents gives another
/// name, whichever program makes the change.
package enum HistoryGeneration {
    package static func name(of status: FileStatus) -> String {
        let hex = { (number: UInt64) in String(number, radix: 16) }
        let time = status.modified
        return
            "\(hex(status.size))-\(hex(UInt64(bitPattern: time.seconds))).\(hex(UInt64(time.nanoseconds)))"
    }

    /// Returns the name of the contents that a step left, from a status that was read after the step. `time` is the time of the
    /// step, in nanoseconds since 1970.
    ///
    /// If the file has changed again since the step, the contents that the step left are gone. The returned name then fits no
    /// contents, so that nothing takes the later contents for those of the step.
    package static func name(of status: FileStatus, leftAt time: Int64) -> String {
        let second: Int64 = 1_000_000_000
        let (whole, rest) = (time / second, time % second)
        let modified = status.modified
        let isLater =
            modified.seconds > whole || modified.seconds == whole && Int64(modified.nanoseconds) > rest
        return isLater ? name(of: status) + "+" : name(of: status)
    }
}
