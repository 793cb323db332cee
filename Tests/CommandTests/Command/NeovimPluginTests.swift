// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("The Neovim plug-in with a fake daemon")
struct NeovimPluginTests {
    /// The path of the plug-in's test driver, found from the path of this file: `Tests/<target>/<folder>/<file>`.
    private static let driver =
        "/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        + "/Workers/nvim-plugin/run.lua"

    /// Each test of the plug-in prints a line. The line of a failed test includes the reason.
    @Test("the plug-in's own tests pass in Neovim", .timeLimit(.minutes(6)))
    func thePluginsOwnTestsPass() throws {
        let tests = try Program("nvim").attempt(
            "--headless", "--clean", "-u", "NONE", "-S", Self.driver, within: .seconds(300))
        let lines = tests.text.split(separator: "\n")
        let passed = lines.filter { $0.hasPrefix("ok ") }
        let failed = lines.filter { !$0.hasPrefix("ok ") }.joined(separator: "\n")
        #expect(tests.isSuccess && passed.count > 50, "\(failed)\n\(tests.errorText.suffix(2000))")
    }
}
