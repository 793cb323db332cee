// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A change of the arbiter's source that makes the arbiter wrong.
struct Mutant: Codable {
    enum Kind: String, Codable {
        case negate, fail, drop, swap
    }

    var number: Int
    let kind: Kind
    let file: String
    let line: Int
    let function: String
    /// The original text of the code that the mutant changes, on one line.
    let text: String
    /// A description of the change, in a few words.
    let change: String

    /// The name of the mutant in the list of survivors. It contains no mutant number and no line number, because an edit of the
    /// source changes both.
    var key: String { "\(file) | \(function) | \(kind.rawValue) | \(text)" }
}

/// The list of mutants that `prepare` writes for `hunt`.
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

/// An error message for the user of the script, in one sentence.
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

/// Returns the text on one line, with single spaces.
func onOneLine(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
}
