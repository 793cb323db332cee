// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// A fault in a configuration file: its line, and a message that says what the user can do.
package struct RuleProblem: Error, Hashable, Sendable {
    /// The number of the line with the fault; nil if the fault concerns the whole file.
    package let line: Int?
    package let message: String

    package init(line: Int? = nil, _ message: String) {
        self.line = line
        self.message = message
    }

    /// The fault as one line for users, for example `/etc/truce/truce.toml:3: unknown key …`.
    package func text(in path: String) -> String {
        path.printable + (line.map { ":\($0)" } ?? "") + ": " + message.printable
    }
}

extension RuleProblem {
    init(_ refusal: TrustedFile.Refusal, limit: Int) {
        switch refusal {
        case .symbolicLink: self.init("it is a symbolic link; put the file itself there")
        case .notRegular: self.init("it is not a regular file; remove it, or put a file there")
        case .owner(let user):
            self.init("it belongs to user \(user); it must be root's, or yours if it is in your directory")
        case .writableByOthers:
            self.init("other users may write to it; take that right away (chmod go-w)")
        case .tooLong: self.init("it is longer than \(limit >> 10) KiB; make it shorter")
        case .system(let error): self.init("it cannot be read (\(error)); remove it, or make it readable")
        }
    }
}
