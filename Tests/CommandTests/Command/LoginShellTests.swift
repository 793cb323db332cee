// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Runs the two install commands of README as an ordinary user of Debian, whose `PATH` has no `/usr/sbin`.
@Suite struct LoginShellTests {
    @Test("in a user's login shell, the two commands of README report that no prerequisite is missing")
    func readmeCommandsRunInALoginShell() throws {
        let place = try scriptsForEveryUser()
        defer { Self.remove(place) }
        let outcome = try Script(
            """
            user=()
            if ((EUID == 0)); then user=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
            swift=$(dirname "$(command -v swift)")
            "${user[@]}" env -i HOME="$1" bash --login -c '
                set -eu
                cd
                PATH=$PATH:$1:$HOME/bin
                ./Scripts/start --demo --system --check
                ./Scripts/test --check' bash "$swift" 2>&1
            """
        ).attempt(place)
        #expect(outcome.isSuccess)
        #expect(
            outcome.text.split(separator: "\n").filter { $0 == "Nothing is missing." }.count == 2,
            "\(outcome.text)")
    }

    /// Copies the scripts to a directory that every user can read. A `sudo` beside them does nothing, because the packages are
    /// already installed.
    private func scriptsForEveryUser() throws -> String {
        let repository = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        return try Script(
            """
            cd "$(mktemp -d)"
            cp -R "$1/Scripts" .
            mkdir bin
            printf '#!/bin/sh\\nexit 1\\n' >bin/sudo
            chmod -R a+rX .
            chmod 755 bin/sudo
            pwd -P
            """
        ).run(repository.path).text.trimmingCharacters(in: .newlines)
    }

    private static func remove(_ place: String) {
        do {
            try Script("rm -r \"$1\"").run(place)
        } catch {
            Issue.record("\(place) stays: \(error)")
        }
    }
}
