// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Citations lead to what they name")
struct CitationTests {
    private static let planted = [
        TextFile(
            path: Citations.decisionFolder + "Data/D012-request-loop.md", text: "# D12: A loop\n\nWhy.\n"),
        TextFile(path: "Sources/truce/truce.docc/Limits.md", text: "# Limits\n"),
    ]

    @Test("each link, article and decision that is cited is there")
    func everyCitationResolves() {
        let citations = Citations(in: Repository.files)
        // The citations that this file plants lead nowhere.
        let files = Repository.files.filter { $0.path != "Tests/TidyTests/CitationTests.swift" }
        #expect(files.flatMap { citations.findings(in: $0) } == [])
    }

    @Test("each decision has one file, with its number and few words")
    func decisionsAreShort() {
        let files = Repository.files.filter { $0.path.hasPrefix(Citations.decisionFolder) }
        let numbers = files.compactMap(\.decisionNumber)
        #expect(numbers.count == files.count)
        #expect(Set(numbers).count == numbers.count)
        #expect(files.flatMap { Citations.findings(inDecision: $0) } == [])
    }

    @Test(
        "a planted citation is found if it leads nowhere",
        arguments: [
            ("Sources/truce/truce.docc/A.md", "[Limits](Limits.md), D12", 0),
            ("Sources/truce/truce.docc/A.md", "[D12](Decisions/Data/D012-request-loop.md)", 0),
            ("README.md", "[Limits](Sources/truce/truce.docc/Limits.md#x) <doc:Limits>", 0),
            ("Sources/truce/truce.docc/A.md", "[Limits](../Limits.md)", 1),
            ("Sources/truce/truce.docc/A.md", "<doc:Bounds>", 1),
            ("Sources/truce/truce.docc/A.md", "D13", 1),
            ("Sources/truce/A.swift", "let a = D13 // D12", 0),
            ("Sources/truce/A.swift", "let a = 1 // D13", 1),
        ])
    func plantedCitation(path: String, text: String, count: Int) {
        #expect(Citations(in: Self.planted).findings(in: TextFile(path: path, text: text)).count == count)
    }

    @Test("a planted decision is found if it is long, or has another number")
    func plantedDecisions() {
        let path = Citations.decisionFolder + "Data/D012-request-loop.md"
        let long = "# D12: A loop\n\n" + String(repeating: "word ", count: 121)
        for text in [long, "# D13: A loop\n"] {
            #expect(Citations.findings(inDecision: TextFile(path: path, text: text)).count == 1)
        }
        #expect(Citations.findings(inDecision: Self.planted[0]) == [])
    }
}
