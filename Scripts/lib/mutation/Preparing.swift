// SPDX-License-Identifier: Apache-2.0
import Foundation
import SwiftOperators
import SwiftParser
import SwiftSyntax

/// Writes the package with all mutants in it.
struct Preparing {
    let root: String
    let package: String
    let here: String

    /// What only asserts is not broken: without it nothing is decided differently.
    static let untouched: Set<String> = ["Invariants.swift"]

    private static let copied = [
        "Sources/Coordination", "Tests/CTestSupport", "Tests/TestSupport", "Tests/NaiveArbitration",
        "Tests/ArbitrationSimulation", "Tests/ArbitrationTests",
    ]

    func run() throws {
        var tree = FileTree()
        for directory in Self.copied {
            for path in try FileTree.files(below: root + "/" + directory) {
                tree.files[directory + "/" + path] = try FileTree.contents(
                    root + "/" + directory + "/" + path)
            }
        }
        for path in try FileTree.files(below: here + "/package") where !path.hasPrefix("Mutant") {
            let target = path == "Package.swift" ? path : "Sources/" + path
            tree.files[target] = try FileTree.contents(here + "/package/" + path)
        }
        let switches = try FileTree.contents(here + "/package/MutantSwitches.swift")
        tree.files["Sources/Arbitration/MutantSwitches.swift"] = switches
        let catalogue = try mutate(into: &tree)
        try tree.write(to: package)
        try catalogue.write(package + "/mutants.json")
        let byHand = catalogue.mutants.count { $0.kind == .byHand }
        print("\(catalogue.mutants.count) mutants, \(byHand) of them by hand.")
    }

    private func mutate(into tree: inout FileTree) throws -> Catalogue {
        let list = "Scripts/lib/mutation/by-rule"
        let entries = try ByHand.parse(readText(here + "/by-rule"), path: list)
        var catalogue = Catalogue(mutants: [])
        var complaints: [String] = []
        let directory = root + "/Sources/Arbitration"
        let files = try FileTree.files(below: directory).filter { $0.hasSuffix(".swift") }
        for entry in entries where !files.contains(entry.file) {
            throw Complaint("\(list):\(entry.line): there is no file \(entry.file) in Sources/Arbitration.")
        }
        for file in files {
            let source = try readText(directory + "/" + file)
            let path = "Sources/Arbitration/" + file
            guard !Self.untouched.contains(file) else {
                tree.files[path] = Data(source.utf8)
                continue
            }
            let mutated = try mutate(
                file, source, entries.filter { $0.file == file }, list, &catalogue, &complaints)
            tree.files[path] = Data(mutated.utf8)
        }
        // All at once: after a change to the arbiter there may be many.
        if !complaints.isEmpty { throw Complaint(complaints.joined(separator: "\n")) }
        return catalogue
    }

    private func mutate(
        _ file: String, _ source: String, _ entries: [ByHand], _ list: String, _ catalogue: inout Catalogue,
        _ complaints: inout [String]
    ) throws -> String {
        let parsed = Parser.parse(source: source)
        let folded = try OperatorTable.standardOperators.foldAll(parsed)
        guard let tree = folded.as(SourceFileSyntax.self) else {
            throw Complaint("\(file) cannot be parsed.")
        }
        let finder = Finder(file: file, tree: tree, firstNumber: catalogue.mutants.count + 1)
        catalogue.mutants += finder.mutants
        var edits = finder.edits
        let bodies = Bodies(tree)
        let bytes = Array(source.utf8)
        var variants: [Range<Int>: [(number: Int, text: String)]] = [:]
        for entry in entries {
            let place: Range<Int>
            do { place = try entry.place(in: bytes, list: list) } catch {
                complaints.append("\(error)")
                continue
            }
            guard let body = bodies.innermost(around: place) else {
                throw Complaint("\(list):\(entry.line): the text for rule \(entry.rule) is in no function.")
            }
            let mutant = Mutant(
                number: catalogue.mutants.count + 1, kind: .byHand, file: file,
                line: bytes[..<place.lowerBound].count { $0 == UInt8(ascii: "\n") } + 1,
                function: body.function, text: entry.old.joined(separator: " "),
                change: entry.new.joined(separator: " "), rule: entry.rule, why: entry.why)
            catalogue.mutants.append(mutant)
            let text =
                String(decoding: bytes[body.range.lowerBound..<place.lowerBound], as: UTF8.self)
                + entry.new.joined(separator: "\n")
                + String(decoding: bytes[place.upperBound..<body.range.upperBound], as: UTF8.self)
            variants[body.range, default: []].append(
                (mutant.number, text.replacing("assert(", with: "mutantAssert(")))
        }
        for (range, variants) in variants {
            let before = variants.map { "if mutantIsAlive(\($0.number)) {\($0.text)\n} else " }.joined()
            edits.wrap(range, before + "{", "}")
        }
        return edits.applied(to: bytes)
    }
}

/// Files by their paths, written only where something differs, so that only that is compiled again.
struct FileTree {
    var files: [String: Data] = [:]

    static func files(below directory: String) throws -> [String] {
        guard let entries = FileManager.default.enumerator(atPath: directory) else {
            throw Complaint("\(directory) cannot be read.")
        }
        return entries.compactMap { $0 as? String }.filter { path in
            var isDirectory: ObjCBool = false
            let exists = FileManager.default.fileExists(
                atPath: directory + "/" + path, isDirectory: &isDirectory)
            return exists && !isDirectory.boolValue && !path.contains(".docc/")
        }.sorted()
    }

    static func contents(_ path: String) throws -> Data {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Complaint("\(path) cannot be read.")
        }
        return data
    }

    func write(to directory: String) throws {
        let manager = FileManager.default
        for top in ["Sources", "Tests"] where manager.fileExists(atPath: directory + "/" + top) {
            for path in try Self.files(below: directory + "/" + top) where files[top + "/" + path] == nil {
                try manager.removeItem(atPath: directory + "/" + top + "/" + path)
            }
        }
        for (path, data) in files {
            let url = URL(fileURLWithPath: directory + "/" + path)
            if manager.contents(atPath: url.path) == data { continue }
            try manager.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try data.write(to: url)
        }
    }
}
