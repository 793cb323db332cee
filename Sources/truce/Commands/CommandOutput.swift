// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Glibc
import LinuxSystem

/// Prints the result of a command: as JSON for programs, or as lines for people.
enum CommandOutput {
    static func print(_ form: some Encodable, asJSON: Bool, lines: () -> [String]) throws {
        if asJSON {
            LineOutput.writeExactly(line: try JSONCodec.encode(form), to: STDOUT_FILENO)
        } else {
            LineOutput.say(lines(), to: STDOUT_FILENO)
        }
    }
}
