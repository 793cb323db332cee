// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Glibc

/// The options of the command line, which Scripts/simulate describes.
struct Options {
    var seeds: UInt64 = 200
    var first: UInt64 = 1
    var isVerbose = false
    /// Whether the run goes on with the next seed after a failure. Two failures count as one if their texts differ only in
    /// numbers.
    var isSurvey = false
    var tries = 4_000
    /// The path of a file of commands. If it is given, the program runs these commands and generates no simulation.
    var replayed: String?

    init?(_ words: [String]) {
        var words = words[...]
        while let word = words.popFirst() {
            if word == "--tell" || word == "--survey" {
                if word == "--tell" { isVerbose = true } else { isSurvey = true }
                continue
            }
            if word == "--replay", let path = words.popFirst() {
                replayed = path
                continue
            }
            guard let value = words.popFirst().flatMap(UInt64.init) else { return nil }
            switch word {
            case "--seeds": seeds = value
            case "--first": first = value
            case "--seed": (first, seeds) = (value, 1)
            case "--tries": tries = Int(value)
            default: return nil
            }
        }
        if seeds == 0 || first > UInt64.max - seeds { return nil }
    }
}

/// Prints without a buffer. If an assertion of the arbiter stops the process, no printed text is lost.
func say(_ text: String, to descriptor: Int32 = 1, end: String = "\n") {
    var bytes = Array((text + end).utf8)[...]
    while !bytes.isEmpty {
        let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count <= 0 { return }
        bytes = bytes.dropFirst(count)
    }
}

/// Returns the resident memory of this process in KiB, from `/proc`.
func residentMemory() -> Int {
    let words = contents(of: "/proc/self/statm")?.split(separator: " ") ?? []
    return words.count > 1 ? (Int(words[1]) ?? 0) * Int(getpagesize()) / 1024 : 0
}

/// The allowed growth of memory in KiB. After a large simulation, fragmentation can leave less than this behind. A leak in each
/// of 10,000 simulations leaves more than this.
let mostGrowth = 8_192

@Sendable func trace(_ step: SimulationStep) { say(CommandWriter.text(step)) }

func printFailure(_ player: WorldGenerator, _ options: Options) {
    guard let finding = player.findings.first else { return }
    say("\nseed \(player.seed) fails after \(player.steps.count) steps: \(finding)")
    var shrinking = FailureShrinker(bounds: player.bounds, checker: finding.checker, tries: options.tries)
    let steps = shrinking.shrink(player.steps)
    var simulationRun = SimulationRun(bounds: player.bounds, isVerbose: true)
    for step in steps { simulationRun.perform(step) }
    say("\n# A shorter world of \(steps.count) steps, as a scenario:")
    for finding in simulationRun.findings { say("# \(finding)") }
    say(([CommandWriter.text(player.bounds)] + steps.map(CommandWriter.text)).joined(separator: "\n"))
    say("\n# The same as a conversation:")
    say(simulationRun.transcript.joined(separator: "\n"))
}

func simulate(_ options: Options) -> Int32 {
    var (totals, steps, first) = (SimulationCounts(), 0, 0)
    var complaints: [String: [(steps: Int, seed: UInt64)]] = [:]
    for seed in options.first..<(options.first + options.seeds) {
        say("\rseed \(seed) ", to: 2, end: "")
        var player = WorldGenerator(seed: seed, onStep: options.isVerbose ? trace : nil)
        if options.isVerbose { say(CommandWriter.text(player.bounds)) }
        player.play()
        steps += player.steps.count
        totals.add(player.simulationRun.totals)
        if let finding = player.findings.first, options.isSurvey {
            let kind = finding.checker + ": " + finding.what.filter { !$0.isNumber }
            if complaints[kind] == nil { say("seed \(seed): \(kind)") }
            complaints[kind, default: []].append((player.steps.count, seed))
        } else if !player.findings.isEmpty {
            printFailure(player, options)
            return 1
        }
        if seed == options.first { first = residentMemory() }
    }
    say("\r", to: 2, end: "")
    for (kind, found) in complaints.sorted(by: { $0.value.count > $1.value.count }) {
        let shortest = found.min { $0.steps < $1.steps }.map { "\($0.seed)" } ?? ""
        say("\(found.count) times, first in seed \(shortest): \(kind)")
    }
    if !complaints.isEmpty { return 1 }
    say("seeds \(options.first) to \(options.first + options.seeds - 1): all promises kept in \(steps) steps")
    say(totals.description)
    let last = residentMemory()
    say("resident memory: \(first) KiB after the first world, \(last) KiB after the last")
    guard last <= first + mostGrowth else {
        say("memory has grown by more than \(mostGrowth) KiB")
        return 1
    }
    return 0
}

/// Runs the commands of a file in a new simulation, and prints the answers.
func replay(_ path: String) -> Int32 {
    guard let text = contents(of: path) else {
        say("simulate: '\(path)' cannot be read", to: 2)
        return 2
    }
    var world = ScenarioInterpreter()
    for command in text.split(separator: "\n") where !command.hasPrefix("#") && !command.hasPrefix(" ") {
        say("\(command)\n\(world.run(String(command)))\n")
    }
    return 0
}

func contents(of path: String) -> String? {
    let file = open(path, O_RDONLY)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var (all, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 65_536))
    while true {
        let count = read(file, &buffer, buffer.count)
        if count <= 0 { return String(decoding: all, as: UTF8.self) }
        all += buffer.prefix(count)
    }
}

guard let options = Options(Array(CommandLine.arguments.dropFirst())) else {
    say("simulate: say --seeds N, --first S, --seed S, --tries N or --tell, with whole numbers", to: 2)
    exit(2)
}
exit(options.replayed.map(replay) ?? simulate(options))
