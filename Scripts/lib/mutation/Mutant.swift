// SPDX-License-Identifier: Apache-2.0
import Foundation

/// One change that breaks the arbiter.
struct Mutant: Codable {
    enum Kind: String, Codable {
        case negate, fail, drop, swap
    }

    var number: Int
    let kind: Kind
    let file: String
    let line: Int
    let function: String
    /// The original text, on one line.
    let text: String
    /// The change, in a few words.
    let change: String

    /// Its name in the list of survivors: numbers and lines change with every edit.
    var key: String { "\(file) | \(function) | \(kind.rawValue) | \(text)" }
}

/// The mutants, from `prepare` to `hunt`.
struct Catalogue: Codable {
    var mutants: [Mutant]

    static func read(_ path: String) throws -> Catalogue {
        try JSONDecoder().decode(Catalogue.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    func write(_ path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: URL(fileURLWithPath: path))
    }
}

/// A message to the user of the script, in one sentence.
struct Complaint: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

func readText(_ path: String) throws -> String {
    guard let data = FileManager.default.contents(atPath: path) else {
        throw Complaint("\(path) cannot be read.")
    }
    return String(decoding: data, as: UTF8.self)
}

/// Text on one line, with single spaces.
func onOneLine(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
}
