// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite struct StyleTests {
    static let license = "// SPDX-License-Identifier: Apache-2.0\n"

    @Test("Every file keeps the habits of style")
    func everyFileObeysTheStyle() {
        let found = Repository.files.flatMap(Style.findings)
        #expect(found == [])
    }

    @Test("The top level holds the layout and nothing else")
    func topLevel() throws {
        #expect(try Style.strangers(atTopLevel: Repository.topLevel) == [])
        #expect(Style.strangers(atTopLevel: ["Docs", "Sources", ".ci", "notes.md"]) == ["Docs", "notes.md"])
    }

    @Test(
        "A broken habit is found",
        arguments: [
            "final class A: @unchecked Sendable {\n    // It is safe.\n}",
            "nonisolated(unsafe) var a = 1",
            "let a = try? b()",
            "do { try b() } catch { }",
            "do {\n    try b()\n} catch is Errno {\n}",
            "// TO" + "DO: later",
            "let path = \"/wor" + "k/main\"",
            "func long() {\n" + String(repeating: "    step()\n", count: 69) + "}",
            String(repeating: "\n", count: 600),
        ])
    func aPlantedStyleViolationIsFound(text: String) {
        #expect(
            Style.findings(in: TextFile(path: "Sources/truce/A.swift", text: Self.license + text)).count == 1)
    }

    @Test(
        "What only looks like a broken habit is not found",
        arguments: [
            "final class A: @unchecked Sendable {\n    // @unchecked: the lock guards every property.\n}",
            "let text = \"try? @unchecked \\(list.map { \"catch {}\" }) sleep(1)\"",
            "/* try? */ // catch { }\ndo { try b() } catch { log(error) }",
            "func short() {\n" + String(repeating: "    step()\n", count: 68) + "}",
            "protocol P {\n    func a()\n\n    func b()\n}\n" + String(repeating: "let a = 1\n", count: 80),
        ])
    func lookalikesAreNotFound(text: String) {
        #expect(Style.findings(in: TextFile(path: "Sources/truce/A.swift", text: Self.license + text)) == [])
    }

    @Test("A file without the license or a sleeping test is found")
    func plantedFiles() {
        let sleeping = "Tests/TruceTests/A.swift"
        let broken = [
            TextFile(path: "Sources/truce/A.swift", text: "import Glibc\n"),
            TextFile(path: "Scripts/a", text: "#!/usr/bin/env bash\nset -e\n"),
            TextFile(path: sleeping, text: Self.license + "try await Task.sleep(for: .seconds(1))\n"),
            TextFile(path: sleeping, text: Self.license + "usleep(10_000)\n"),
        ]
        for file in broken { #expect(Style.findings(in: file).count == 1, "\(file.path)") }
        let sampling = "usleep(10_000)\n// @sleep: a sample is taken every 10 ms.\n"
        #expect(Style.findings(in: TextFile(path: sleeping, text: Self.license + sampling)) == [])
    }

    @Test("Long functions are found in scripts too")
    func plantedScriptFunctions() {
        let shell = "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\n"
        let python = "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n"
        let body = String(repeating: "    step\n", count: 70)
        for text in [shell + "long() {\n\(body)}\n", python + "def long():\n\(body)\nnext\n"] {
            #expect(Style.findings(in: TextFile(path: "Scripts/a", text: text)).count == 1)
        }
    }

    @Test("A function of one line in a script ends with its line")
    func scriptFunctionOfOneLine() {
        let text =
            "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\nshort() { step; }\n"
            + String(repeating: "step\n", count: 80) + "next() {\n    step\n}\n"
        #expect(Style.findings(in: TextFile(path: "Scripts/a", text: text)) == [])
    }
}
