// SPDX-License-Identifier: Apache-2.0
import Foundation

/// The compiled part of Scripts/mutate.
///
///     tool prepare ROOT PACKAGE                               writes the package with all mutants
///     tool hunt ROOT PACKAGE BINARY [--quick] [CHOICE WORD]   runs the built tests with each mutant
@main
struct Tool {
    static func main() {
        // Writes each line of output immediately, also if the output is a file.
        setlinebuf(stdout)
        do {
            try run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("mutate: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ words: [String]) throws {
        let isQuick = words.contains("--quick")
        let words = words.filter { $0 != "--quick" }
        switch (words.first, words.count) {
        case ("prepare", 3):
            let here = words[1] + "/Scripts/lib/mutation"
            try Preparing(root: words[1], package: words[2], here: here).run()
        case ("hunt", 4), ("hunt", 6):
            let choice = words.count == 6 ? (name: words[4], value: words[5]) : nil
            try hunt(root: words[1], package: words[2], binary: words[3], isQuick: isQuick, choice)
        default: throw Complaint("unknown words: \(words.joined(separator: " "))")
        }
    }

    private static func hunt(
        root: String, package: String, binary: String, isQuick: Bool,
        _ choice: (name: String, value: String)?
    ) throws {
        let mutants = try Catalogue.read(package + "/mutants.json").mutants
        let survivors = try Survivors(parsing: readText(root + "/" + Survivors.path))
        let chosen = try choose(mutants, choice)
        var hunt = Hunt(binary: binary, isQuick: isQuick)
        try hunt.measure()
        let keys = Survivors.keys(of: mutants)
        let expected = Set(keys.filter { survivors.entries[$0.value] != nil }.keys)
        let verdicts = try hunt.verdicts(on: chosen, expected: expected) { left in
            let names = left.compactMap { keys[$0.number] }
            for name in names where survivors.entries[name] == nil { print("    left: \(name)") }
        }
        var report = Report(
            chosen: chosen, verdicts: verdicts, keys: keys, survivors: survivors, isQuick: isQuick)
        if choice == nil {
            let known = Set(keys.values)
            for entry in survivors.entries.values.sorted(by: { $0.line < $1.line })
            where !known.contains(entry.key) {
                report.complain("\(Survivors.path):\(entry.line): there is no such mutant any more.")
            }
        }
        report.printList()
        if !report.conclude() { exit(1) }
    }

    private static func choose(_ mutants: [Mutant], _ choice: (name: String, value: String)?) throws
        -> [Mutant]
    {
        guard let choice else { return mutants }
        var chosen: [Mutant]
        switch choice.name {
        case "--only": chosen = mutants.filter { $0.file == choice.value }
        case "--sample":
            // The chosen mutants are spread evenly over the list of all mutants, so some come from each file. Every run chooses
            // the same mutants.
            let count = min(Int(choice.value) ?? 0, mutants.count)
            chosen = (0..<count).map { mutants[$0 * mutants.count / count] }
        default: throw Complaint("unknown choice \(choice.name)")
        }
        if chosen.isEmpty { throw Complaint("there is no mutant for \(choice.name) \(choice.value).") }
        return chosen
    }
}
