// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

@testable import VersionStore

@Suite("The decoding of the store's log (D273)")
struct LogLineTests {
    private static let least =
        #"{"cause":"claim","event":"kept","id":"00000000000000a1","nanoseconds":5,"time":""}"#

    /// Numbers that depend on a seed only, so that a failure can be repeated.
    private struct Chance: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 29
        }
    }

    private static func read(_ text: String) -> LogLine? { LogLine.read(Array(text.utf8)[...]) }

    private static func bytes(upTo most: Int, _ chance: inout Chance) -> [UInt8] {
        (0..<Int.random(in: 0...most, using: &chance)).map { _ in UInt8.random(in: 0...255, using: &chance) }
    }

    private static func text(_ chance: inout Chance) -> String {
        let samples = ["a", "é", "\"", "\\", "/", "\n", "\u{1}", "\u{7f}", "\u{1F600}", "\u{2028}", " "]
        return (0..<Int.random(in: 0...8, using: &chance))
            .map { _ in samples.randomElement(using: &chance) ?? "" }.joined()
    }

    private static func rights(_ chance: inout Chance) -> FileRights {
        FileRights(
            user: .random(in: 0 ... .max, using: &chance), group: .random(in: 0 ... .max, using: &chance),
            mode: .random(in: 0 ... .max, using: &chance),
            accessControlList: Bool.random(using: &chance) ? bytes(upTo: 40, &chance) : nil)
    }

    private static func actor(_ chance: inout Chance) -> VersionActor? {
        guard Bool.random(using: &chance) else { return nil }
        return VersionActor(
            program: text(&chance),
            process: Bool.random(using: &chance) ? .random(in: 0 ... .max, using: &chance) : nil,
            user: Bool.random(using: &chance) ? .random(in: 0 ... .max, using: &chance) : nil,
            run: Bool.random(using: &chance) ? text(&chance) : nil)
    }

    /// Makes a line of any event with any values.
    private static func line(_ chance: inout Chance) -> LogLine {
        let time = Int64.random(in: 0..<2_534_023_008_000_000_000, using: &chance)
        let (id, other) = (
            VersionID(rawValue: .random(in: 0 ... .max, using: &chance)),
            VersionID(rawValue: .random(in: 0 ... .max, using: &chance))
        )
        switch Int.random(in: 0..<8, using: &chance) {
        case 0: return LogLine(dropping: id, reason: text(&chance), at: time)
        case 1:
            return LogLine(
                dropping: id, heldBy: other, size: .random(in: 0 ... .max, using: &chance), at: time)
        case 2: return LogLine(settling: id, as: .conflict, at: time)
        case 3: return LogLine(moving: id, to: bytes(upTo: 30, &chance), at: time)
        case 4:
            return LogLine(
                DocumentMove(
                    from: bytes(upTo: 30, &chance), to: bytes(upTo: 30, &chance), kind: .exchange, last: id),
                at: time)
        default: break
        }
        let provenance = Provenance(
            author: actor(&chance), saver: actor(&chance), readGeneration: text(&chance), readTime: time,
            generation: text(&chance), conflictCopy: bytes(upTo: 9, &chance))
        return LogLine(
            VersionRecord(
                id: id, path: bytes(upTo: 60, &chance), cause: PreservationCause(rawValue: text(&chance)),
                time: time,
                rights: rights(&chance), method: .reflink, device: .random(in: 0 ... .max, using: &chance),
                inode: .random(in: 0 ... .max, using: &chance), size: .random(in: 0 ... .max, using: &chance),
                closed: (0..<Int.random(in: 0...2, using: &chance)).map { _ in rights(&chance) },
                user: .random(in: 0 ... .max, using: &chance), standing: .resolved,
                provenance: Bool.random(using: &chance) ? provenance : nil))
    }

    @Test("a line is decoded with all of its values", arguments: [UInt64(1), 2, 3])
    func aLineIsDecodedWithAllValues(seed: UInt64) throws {
        var chance = Chance(state: seed)
        for number in 0..<2_000 {
            let written = Self.line(&chance).bytes()
            let decoded = try #require(LogLine.read(written.dropLast()), "seed \(seed), line \(number)")
            #expect(decoded.bytes() == written, "seed \(seed), line \(number)")
        }
    }

    @Test("a line with a changed byte is JSON if it is decoded", arguments: [UInt64(4), 5])
    func aDamagedLineIsNotDecoded(seed: UInt64) throws {
        var chance = Chance(state: seed)
        var decoded = 0
        for number in 0..<4_000 {
            var damaged = Array(Self.line(&chance).bytes().dropLast())
            damaged[damaged.indices.randomElement(using: &chance) ?? 0] = .random(in: 0...255, using: &chance)
            guard let line = LogLine.read(damaged[...]) else { continue }
            decoded += 1
            let members = try #require(
                JSONSerialization.jsonObject(with: Data(damaged)) as? [String: Any],
                "seed \(seed), line \(number)")
            #expect(members["id"] as? String == line.id)
            #expect(members["cause"] as? String == line.cause)
        }
        // Many changed bytes are in a text or a number, and leave the line readable.
        #expect(decoded > 400, "seed \(seed)")
    }

    @Test("each cut-off beginning of a line is not decoded")
    func aCutLineIsNotDecoded() {
        var chance = Chance(state: 6)
        let line = Self.line(&chance).bytes().dropLast()
        for count in 0..<line.count { #expect(LogLine.read(line.prefix(count)) == nil, "\(count) bytes") }
    }

    @Test(
        "blanks, escapes, null and members of a later release are read",
        arguments: [
            #"  { "event" : "kept" ,"id":"00000000000000a1","nanoseconds":5,"time":"","cause":"claim" } "#,
            #"{"\u0065vent":"k\u0065pt","id":"00000000000000a1","nanoseconds":5,"time":"\ud83d\ude00","cause":"claim"}"#,
            #"{"event":"kept","id":"00000000000000a1","nanoseconds":5,"time":"","cause":"claim","size":null}"#,
            #"{"later":[1,-2.5e+7,{"a":[true,false,null]},"\/"],"event":"kept","id":"00000000000000a1","nanoseconds":5,"#
                + #""time":"","cause":"claim","author":{"program":"vim","later":[]}}"#,
        ])
    func otherFormsOfALineAreRead(text: String) throws {
        let line = try #require(Self.read(text))
        #expect(line.event == .kept && line.id == "00000000000000a1" && line.cause == "claim")
        #expect(line.nanoseconds == 5 && line.size == nil)
    }

    @Test(
        "a line with a fault is not decoded",
        arguments: [
            "", "{}", "[]", "null", Self.least + "x", Self.least + Self.least,
            Self.least.replacing("5", with: "05"),
            Self.least.replacing("5", with: "5.0"), Self.least.replacing("5", with: "9223372036854775808"),
            Self.least.replacing("5", with: "\"5\""), Self.least.replacing("claim", with: "\\ud83d"),
            Self.least.replacing("claim", with: "\\x"), Self.least.replacing("claim", with: "a\tb"),
            Self.least.replacing(#""time":"""#, with: #""time":null"#),
            Self.least.replacing("}", with: #","user":-1}"#),
            Self.least.replacing("}", with: #","user":4294967296}"#),
            Self.least.replacing("}", with: #","pathBytes":"YQ="}"#),
            Self.least.replacing("}", with: #","pathBytes":"Y*=="}"#),
            Self.least.replacing("}", with: #","later":01}"#),
            Self.least.replacing("}", with: #","later":1.}"#),
            Self.least.replacing("}", with: #","later":tru}"#),
            Self.least.replacing("}", with: #","later":[1,]}"#),
            Self.least.replacing("}", with: #","author":{"pid":1}}"#),
            Self.least.replacing("}", with: ",\"later\":" + String(repeating: "[", count: 100_000)),
        ])
    func aFaultyLineIsNotDecoded(text: String) { #expect(Self.read(text) == nil) }

    @Test("the least line is decoded, so the lines with faults differ from it by their faults only")
    func theLeastLineIsDecoded() { #expect(Self.read(Self.least)?.cause == "claim") }
}
