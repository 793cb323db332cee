// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Style of the code")
struct StyleTests {
    private static let license = "// SPDX-License-Identifier: Apache-2.0\n"

    @Test("every file follows the style rules")
    func everyFileFollowsTheStyleRules() {
        #expect(Repository.files.flatMap(Style.findings) == [])
    }

    @Test("the top level of the repository contains only the files and directories in the test's list")
    func theTopLevelHasOnlyKnownEntries() throws {
        let layout = ["Package.swift", "Package.resolved", "README.md"] + Repository.directories
        #expect(try Repository.topLevel.filter { !$0.hasPrefix(".") && !layout.contains($0) } == [])
    }

    @Test(
        "the check finds a planted style fault",
        arguments: [
            ("Sources/truce/A.swift", "final class A: @unchecked Sendable {\n    // It is safe.\n}"),
            ("Sources/truce/A.swift", "nonisolated(unsafe) var a = 1"),
            ("Sources/truce/A.swift", "let a = try? b()"),
            ("Sources/truce/A.swift", "do { try b() } catch { }"),
            ("Sources/truce/A.swift", "    public static let a = 1"),
            ("Sources/truce/A.swift", "// TO" + "DO: later"),
            ("Sources/truce/A.swift", "func long() {\n" + String(repeating: "    step()\n", count: 69) + "}"),
            ("Sources/truce/A.swift", String(repeating: "\n", count: 600)),
            ("Tests/A.swift", "usleep(10_000)"),
            ("Scripts/a.sh", "long() {\n" + String(repeating: "    step\n", count: 70) + "}"),
            ("Scripts/a.py", "def long():\n" + String(repeating: "    step\n", count: 70) + "\nnext"),
        ])
    func aPlantedStyleFaultIsFound(path: String, text: String) {
        let license = path.hasSuffix(".swift") ? Self.license : "#" + Self.license.dropFirst(2)
        #expect(Style.findings(in: TextFile(path: path, text: license + text)).count == 1)
        #expect(Style.findings(in: TextFile(path: path, text: "\n" + license + text)).count == 2)
    }

    @Test(
        "the check does not report allowed code that resembles a fault",
        arguments: [
            "final class A: @unchecked Sendable {\n    // @unchecked: the lock guards every property.\n}",
            "usleep(10_000)\n// @sleep: a sample is taken every 10 ms.",
            "let text = \"try? @unchecked sleep(1)\" // catch { }\ndo { try b() } catch { log(error) }",
            "func short() {\n" + String(repeating: "    step()\n", count: 68) + "}",
        ])
    func allowedCodeThatResemblesAFaultIsNotReported(text: String) {
        for path in ["Sources/truce/A.swift", "Tests/A.swift"] {
            #expect(Style.findings(in: TextFile(path: path, text: Self.license + text)) == [])
        }
    }
}
