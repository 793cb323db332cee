// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Style")
struct StyleTests {
    private static let license = "// SPDX-License-Identifier: Apache-2.0\n"

    @Test("every file keeps the habits of style")
    func everyFileObeysTheStyle() {
        #expect(Repository.files.flatMap(Style.findings) == [])
    }

    @Test("the top level holds the layout and nothing else")
    func topLevel() throws {
        let layout = ["Package.swift", "Package.resolved", "README.md"] + Repository.directories
        #expect(try Repository.topLevel.filter { !$0.hasPrefix(".") && !layout.contains($0) } == [])
    }

    @Test(
        "a planted fault is found",
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
    func plantedFault(path: String, text: String) {
        let license = path.hasSuffix(".swift") ? Self.license : "#" + Self.license.dropFirst(2)
        #expect(Style.findings(in: TextFile(path: path, text: license + text)).count == 1)
        #expect(Style.findings(in: TextFile(path: path, text: "\n" + license + text)).count == 2)
    }

    @Test(
        "what only looks like a fault is not found",
        arguments: [
            "final class A: @unchecked Sendable {\n    // @unchecked: the lock guards every property.\n}",
            "usleep(10_000)\n// @sleep: a sample is taken every 10 ms.",
            "let text = \"try? @unchecked sleep(1)\" // catch { }\ndo { try b() } catch { log(error) }",
            "func short() {\n" + String(repeating: "    step()\n", count: 68) + "}",
        ])
    func lookalike(text: String) {
        for path in ["Sources/truce/A.swift", "Tests/A.swift"] {
            #expect(Style.findings(in: TextFile(path: path, text: Self.license + text)) == [])
        }
    }
}
