// SPDX-License-Identifier: Apache-2.0
import Foundation
import SwiftOperators
import SwiftParser
import SwiftSyntax

/// Writes a package with the arbiter's source, into which the code of all mutants is inserted.
struct Preparing {
    let root: String
    let package: String
    let here: String

    /// Files that only assert. No mutants are made in them, because they do not affect any result.
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
        print("\(catalogue.mutants.count) mutants.")
    }

    private func mutate(into tree: inout FileTree) throws -> Catalogue {
        var catalogue = Catalogue(mutants: [])
        let directory = root + "/Sources/Arbitration"
        for file in try FileTree.files(below: directory) where file.hasSuffix(".swift") {
            let source = try readText(directory + "/" + file)
            let isMutated = !Self.untouched.contains(file)
            let text = isMutated ? try mutate(file, source, &catalogue) : source
            tree.files["Sources/Arbitration/" + file] = Data(text.utf8)
        }
        return catalogue
    }

    private func mutate(_ file: String, _ source: String, _ catalogue: inout Catalogue) throws -> String {
        let folded = try OperatorTable.standardOperators.foldAll(Parser.parse(source: source))
        guard let tree = folded.as(SourceFileSyntax.self) else {
            throw Complaint("\(file) cannot be parsed.")
        }
        let finder = Finder(file: file, tree: tree, firstNumber: catalogue.mutants.count + 1)
        catalogue.mutants += finder.mutants
        return finder.edits.applied(to: Array(source.utf8))
    }
}

/// Writes files by their paths. A file that already has the right contents is not written, so that it need not be compiled
/// again.
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
