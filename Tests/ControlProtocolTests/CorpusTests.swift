// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

/// The first inputs of Scripts/fuzz, each whole and cut off anywhere.
struct CorpusTests {
    static let inputs: [String] = {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let directory = tests.appendingPathComponent("Fuzz/Corpus")
        let names = FileManager.default.enumerator(atPath: directory.path)?.compactMap { $0 as? String }
        return (names ?? []).sorted().map { directory.appendingPathComponent($0).path }
    }()

    @Test("There is a corpus")
    func corpusIsNotEmpty() { #expect(Self.inputs.count >= 40) }

    @Test(
        "A message that is read and sent on stays the same, and the pieces of the stream make no difference",
        arguments: CorpusTests.inputs)
    func corpusKeepsPromises(path: String) throws {
        let bytes = try #require(FileManager.default.contents(atPath: path))
        for end in stride(from: bytes.count, through: 0, by: -7) {
            try StreamChecks.check(Array(bytes.prefix(end)))
        }
    }

    @Test("A broken promise is reported")
    func findsPlantedViolation() {
        #expect(throws: ProtocolViolation.self) { try StreamChecks.expect(false, "it is broken") }
    }
}
