// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

/// Decodes each of the first inputs of Scripts/fuzz, whole and cut off at any byte.
struct CorpusTests {
    static let inputs: [String] = {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let directory = tests.appendingPathComponent("Fuzz/Corpus")
        let names = FileManager.default.enumerator(atPath: directory.path)?.compactMap { $0 as? String }
        return (names ?? []).sorted().map { directory.appendingPathComponent($0).path }
    }()

    @Test("The corpus of the fuzzer has at least 40 inputs")
    func theCorpusHasAtLeast40Inputs() { #expect(Self.inputs.count >= 40) }

    @Test(
        "Each input of the fuzzer's corpus decodes to the same messages in pieces, as a whole, and encoded anew",
        arguments: CorpusTests.inputs)
    func eachInputOfTheFuzzersCorpusDecodesEquallyInPiecesAndAsAWhole(path: String) throws {
        let bytes = try #require(FileManager.default.contents(atPath: path))
        for end in stride(from: bytes.count, through: 0, by: -7) {
            try StreamChecks.check(Array(bytes.prefix(end)))
        }
    }

    @Test("The checks of the fuzzer report a planted violation of the protocol")
    func theChecksReportAPlantedViolationOfTheProtocol() {
        #expect(throws: ProtocolViolation.self) { try StreamChecks.expect(false, "it is broken") }
    }
}
