// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Citations of documents, decisions and rules")
struct CitationTests {
    private static let planted = [
        TextFile(
            path: Citations.decisionFolder + "Data/D012-request-loop.md", text: "# D12: A loop\n\nWhy.\n"),
        TextFile(path: "Sources/truce/truce.docc/Limits.md", text: "# Limits\n"),
        TextFile(
            path: Citations.ruleFolder + "Rules/Grants.md", text: "- **G1** A rule.\n- **G2** Another.\n"),
        TextFile(path: "Sources/A/A.docc/Situations.md", text: "| **H1** | two programs | `G1-one` |\n"),
        TextFile(path: "Tests/A/G1-one.scenario", text: "# Rule G1\n"),
        TextFile(path: "Sources/A/A.swift", text: "struct Queue {\n    func add() {}\n}\n"),
    ]

    @Test("each link, article, decision, rule and symbol that a text cites exists")
    func everyCitedTargetExists() {
        let citations = Citations(in: Repository.files)
        // This file contains citations without a target on purpose, so it is left out.
        let files = Repository.files.filter { $0.path != "Tests/TidyTests/CitationTests.swift" }
        #expect(files.flatMap { citations.findings(in: $0) } == [])
    }

    @Test("the index of Tests/Workers lists exactly the programs in this directory")
    func theIndexListsEachWorkerProgram() throws {
        let index = try #require(Repository.files.first { $0.path == "Tests/Workers/README.md" })
        let listed = index.lines.compactMap {
            $0.firstMatch(of: #/^- `([^`]+)`: /#).map { String($0.output.1) }
        }
        let programs = Set(
            Repository.files.filter { $0.isBelow("Tests/Workers") && !$0.isMarkdown }
                .compactMap { $0.path.split(separator: "/").dropFirst(2).first.map(String.init) })
        #expect(Set(listed) == programs)
        #expect(listed.count == programs.count)
    }

    @Test("each decision has its own file, a title with its number, and at most 120 words")
    func decisionsAreNumberedAndShort() {
        let files = Repository.files.filter { $0.path.hasPrefix(Citations.decisionFolder) }
        let numbers = files.compactMap(\.decisionNumber)
        #expect(numbers.count == files.count)
        #expect(Set(numbers).count == numbers.count)
        #expect(files.flatMap { Citations.findings(inDecision: $0) } == [])
    }

    @Test(
        "the check finds a planted citation without a target",
        arguments: [
            ("Sources/truce/truce.docc/A.md", "[Limits](Limits.md), D12", 0),
            ("Sources/truce/truce.docc/A.md", "[D12](Decisions/Data/D012-request-loop.md)", 0),
            ("README.md", "[Limits](Sources/truce/truce.docc/Limits.md#x) <doc:Limits>", 0),
            ("Sources/truce/truce.docc/A.md", "[Limits](../Limits.md)", 1),
            ("Sources/truce/truce.docc/A.md", "[Bounds](../Bounds.swift)", 1),
            ("Sources/truce/truce.docc/A.md", "<doc:Bounds>", 1),
            ("Sources/truce/truce.docc/A.md", "D13", 1),
            ("Sources/truce/A.swift", "let a = D13 // D12", 0),
            ("Sources/truce/A.swift", "let a = 1 // D13", 1),
            ("Sources/truce/A.swift", "// Rules G1, G2 and G3 [G4]", 1),
            ("README.md", "``Queue``, ``Queue/add()``, ``Queue/remove()``, ``Stack``", 2),
            ("Tests/A/A.scenario", "# Situations H1 [H-FC11], H2", 1),
            ("Sources/A/A.docc/Situations.md", "`G1-one`, `G2-two`", 1),
        ])
    func aPlantedBrokenCitationIsFound(path: String, text: String, count: Int) {
        #expect(Citations(in: Self.planted).findings(in: TextFile(path: path, text: text)).count == count)
    }

    @Test("the check finds a planted decision that is too long or has a wrong number")
    func aPlantedDecisionThatIsTooLongIsFound() {
        let path = Citations.decisionFolder + "Data/D012-request-loop.md"
        let long = "# D12: A loop\n\n" + String(repeating: "word ", count: 121)
        for text in [long, "# D13: A loop\n"] {
            #expect(Citations.findings(inDecision: TextFile(path: path, text: text)).count == 1)
        }
        #expect(Citations.findings(inDecision: Self.planted[0]) == [])
    }
}
