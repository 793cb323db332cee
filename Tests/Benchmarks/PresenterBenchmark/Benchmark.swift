// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import Glibc

/// Measures a coordinated read of a file with presenters in other processes. For comparison, measures the same messages without
/// coordination.
///
/// The program prints times, and never fails because of a time. `Scripts/bench-presenters` runs it.
@main
struct Benchmark {
    static func main() throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        guard arguments.count > 2, arguments.removeFirst() == "--as",
            let user = UInt32(arguments.removeFirst())
        else { return try measure(Options(Array(CommandLine.arguments.dropFirst()))) }
        Children.become(user)
        try play(arguments)
    }

    private static func play(_ words: [String]) throws {
        switch (words[0], words.count) {
        case ("hub", 3):
            try Children.endWithInput()
            try Hub.serve(in: words[1], presenters: Int(words[2]) ?? 0)
        case ("present", 4):
            try Children.endWithInput()
            try ProcessRoles.present(words[2], on: words[1], delay: UInt32(words[3]) ?? 0)
        case ("read", 4): try ProcessRoles.read(words[3], coordinatedBy: words[1], orBarelyBy: words[2])
        default: complain("there is no part '\(words[0])'")
        }
    }

    private static func measure(_ options: Options) throws {
        var chance = SplitMixGenerator(seed: options.seed)
        var rounds: [Workload: [Round]] = [:]
        for number in 1...options.rounds {
            for world in chance.shuffled(options.worlds) {
                let stage = try BenchmarkProcesses(world, at: options.site)
                rounds[world, default: []].append(try stage.measure(&chance))
                try stage.end()
            }
            try say("round \(number) of \(options.rounds)")
        }
        let all = options.worlds.map { (world: $0, rounds: rounds[$0] ?? []) }
        try say("\n\(Table.text(all))")
        guard let file = options.json else { return }
        let record = Record(
            seed: options.seed,
            worlds: all.map { .init(presenters: $0.presenters, delay: $0.delay, rounds: $1) })
        try JSONEncoder().encode(record).write(to: URL(filePath: file))
    }
}

/// All figures, in nanoseconds, in the order of the rounds.
private struct Record: Encodable {
    struct Entry: Encodable {
        var presenters: Int
        /// The time that each presenter takes to answer, in microseconds.
        var delay: Int
        var rounds: [Round]
    }

    var seed: UInt64
    var worlds: [Entry]
}

private struct Options {
    private(set) var rounds = 7
    private(set) var seed: UInt64 = 1
    private(set) var json: String?
    private(set) var worlds = Workload.all
    let site: Site

    /// Parses the arguments. Scripts/bench-presenters has checked them, so they are correct.
    init(_ arguments: [String]) {
        var (names, users, rest) = (Workload.all.map(\.name), [geteuid()], arguments[...])
        while let word = rest.first, word.hasPrefix("--") {
            guard rest.count > 1 else { Self.refuse() }
            let value = rest[rest.startIndex + 1]
            rest.removeFirst(2)
            let values = value.split(separator: ",").map(String.init)
            switch word {
            case "--rounds": rounds = Int(value) ?? 0
            case "--seed": seed = UInt64(value) ?? 0
            case "--json": json = value
            case "--only": names = values
            case "--users": users = values.compactMap { UInt32($0) }
            default: Self.refuse()
            }
        }
        let words = Array(rest)
        guard words.count == 3, rounds > 0, !users.isEmpty else { Self.refuse() }
        worlds = Workload.all.filter { names.contains($0.name) }
        site = Site(socket: words[0], directory: words[1], path: words[2], users: users)
    }

    private static func refuse() -> Never {
        complain(
            "usage: PresenterBenchmark [--rounds N] [--seed N] [--json FILE] [--only NAME,…] [--users ID,…] "
                + "SOCKET DIRECTORY PATH")
    }
}
