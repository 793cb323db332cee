// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

/// Sends the first inputs of Scripts/fuzz to a server. After each input the server holds nothing for its client, and no other
/// client has waited long.
struct HostileStreamTests {
    @Test("Invalid and truncated streams, alone or in a row, leave no claim and delay no other client")
    func invalidStreamsDelayNoOtherClient() throws {
        let tests = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let corpus = tests.appendingPathComponent("Fuzz/Corpus")
        let names = try FileManager.default.contentsOfDirectory(atPath: corpus.path).sorted()
        #expect(names.count >= 40)
        let stage = HostileStage()
        var all: [UInt8] = []
        for name in names {
            let bytes = Array(try Data(contentsOf: corpus.appendingPathComponent(name)))
            all += bytes
            for stream in [bytes, Array(bytes.dropLast()), Array(bytes.prefix(bytes.count / 2))] {
                do {
                    try stage.play(stream)
                } catch {
                    Issue.record("\(name), \(stream.count) bytes: \(error)")
                }
            }
        }
        try stage.play(all)
        try stage.end()
    }
}
