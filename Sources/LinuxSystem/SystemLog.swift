// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Where a daemon's log lines go.
package enum SystemLog: Sendable {
    case standardError
    case syslog

    /// Connects to the system's log; must happen before the mount, which may cover `/dev/log`.
    package static func openSystemLog() -> SystemLog {
        // openlog(3) keeps the pointer, so the name is never freed.
        clinux_open_log(strdup("truce"))
        return .syslog
    }

    package func write(_ line: String) {
        switch self {
        case .standardError: LineOutput.write("truce: \(line)\n", to: STDERR_FILENO)
        case .syslog: clinux_log(0, line)
        }
    }
}

/// Whole lines to a terminal, a pipe or nothing.
package enum LineOutput {
    /// Writes all of `text`; a reader that is gone is nobody's loss.
    package static func write(_ text: String, to descriptor: CInt) {
        write(Array(text.utf8), to: descriptor)
    }

    package static func write(_ bytes: [UInt8], to descriptor: CInt) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }
}
