// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Runs the tests with each mutant until a test fails. Quick tests run before slow tests.
struct Hunt {
    struct Stage {
        let name: String
        let arguments: [String]
        var bound = 600.0
        /// The mutants in code that the tests of this stage run. The stage does not try other mutants.
        var reached: Set<Int> = []
    }

    enum Verdict {
        case caught(Failure)
        case survived
    }

    static let scenarios = "^ArbitrationTests\\.ScenarioTests/"
    /// The suites that take longest. Each has a stage of its own at the end. So if one suite catches a mutant, the other suites
    /// do not try it.
    static let slow = "\\.(Exhaustive|Differential|Simulation|Liveness)Tests/"
    /// The number of short stages. They run before the long stages.
    static let shortStages = 2

    static let stages = [
        Stage(name: "scenarios", arguments: ["--filter", scenarios]),
        Stage(
            name: "other tests",
            arguments: [
                "--filter", "^ArbitrationTests\\.", "--skip", scenarios, "--skip", "\\.RuleCitationTests/",
                "--skip",
                slow,
            ]),
        Stage(name: "worlds", arguments: ["--filter", "\\.(Liveness|Simulation)Tests/"]),
        Stage(name: "comparisons", arguments: ["--filter", "\\.DifferentialTests/"]),
        Stage(name: "small worlds", arguments: ["--filter", "\\.ExhaustiveTests/"]),
    ]

    let binary: String
    private var stages: [Stage]

    init(binary: String, isQuick: Bool) {
        self.binary = binary
        stages = isQuick ? Array(Self.stages.prefix(Self.shortStages)) : Self.stages
    }

    /// Runs the tests of each stage without a mutant. Every test must succeed.
    ///
    /// The time of this run determines the time limit of the runs with mutants. The run also shows which mutants are in code
    /// that the tests run.
    mutating func measure() throws {
        for index in stages.indices {
            let path = NSTemporaryDirectory() + "mutants-reached-\(getpid())"
            defer { unlink(path) }
            let (failures, seconds) = try run(
                stages[index], [], ["MUTANT_REACHED": path]
            ) { _ in false }
            guard failures.isEmpty else {
                throw Complaint(
                    "Nothing is broken yet, and this fails already: "
                        + failures.map(\.description).joined(separator: ", "))
            }
            stages[index].bound = 2 + 3 * seconds
            stages[index].reached = Set(try readText(path).split(separator: "\n").compactMap { Int($0) })
            print(
                String(
                    format:
                        "%@: %.2f s of computing without a mutant; over %.0f s is a hang; reaches %d mutants",
                    stages[index].name, seconds, stages[index].bound, stages[index].reached.count))
        }
    }

    private func run(
        _ stage: Stage, _ mutants: [Mutant], _ environment: [String: String],
        until isEnough: ([Failure]) -> Bool
    ) throws -> (failures: [Failure], seconds: Double) {
        let numbers = mutants.map { String($0.number) }.joined(separator: ",")
        let always = ["MUTANT": numbers, "SWIFT_BACKTRACE": "enable=no", "TRUCE_WORLDS": "all"]
        return try TestRun(
            binary: binary, arguments: stage.arguments, environment: always.merging(environment) { $1 },
            bound: stage.bound
        ).failures(until: isEnough)
    }

    /// Finds the verdict on each mutant. The stages run one after another, and each stage tries the mutants that no earlier
    /// stage has caught.
    ///
    /// In the long stages, mutants that are expected to survive are tried in large groups. After the short stages, `body` is
    /// called with the mutants that were not caught.
    func verdicts(
        on mutants: [Mutant], expected: Set<Int>, _ body: ([Mutant]) -> Void
    ) throws -> [Int: Verdict] {
        var verdicts: [Int: Verdict] = [:]
        var left = mutants
        for (index, stage) in stages.enumerated() {
            if index == Self.shortStages { body(left) }
            let isLong = index >= Self.shortStages
            let alone = left.filter { !isLong || !expected.contains($0.number) }
            let together = left.filter { isLong && expected.contains($0.number) }
            verdicts.merge(try pass(of: stage, over: alone, together).mapValues { .caught($0) }) { $1 }
            left.removeAll { verdicts[$0.number] != nil }
            print("\(stage.name): \(left.count) of \(mutants.count) are left")
        }
        for mutant in left { verdicts[mutant.number] = .survived }
        return verdicts
    }

    /// Finds a failed test for each mutant in one stage. Two processes run at a time.
    ///
    /// All mutants of a group are alive in one run. If no test fails, each mutant of the group survives. Otherwise the two
    /// halves of the group are tried, each in its own run.
    private func pass(
        of stage: Stage, over alone: [Mutant], _ together: [Mutant]
    ) throws -> [Int: Failure] {
        let reached = { (mutants: [Mutant]) in mutants.filter { stage.reached.contains($0.number) } }
        let shared = Shared(Self.halves(of: reached(together)) + reached(alone).map { [$0] })
        DispatchQueue.concurrentPerform(iterations: 2) { _ in
            while let group = shared.next() {
                do {
                    shared.finish(group, try run(stage, group, [:]) { !$0.isEmpty }.failures.first)
                } catch {
                    shared.stop(error)
                }
            }
        }
        if let error = shared.error { throw error }
        return shared.failures
    }

    fileprivate static func halves(of group: [Mutant]) -> [[Mutant]] {
        let middle = group.count / 2
        return [Array(group[..<middle]), Array(group[middle...])].filter { !$0.isEmpty }
    }

    private final class Shared: @unchecked Sendable {
        // @unchecked: `lock` guards all properties.
        private let lock = NSCondition()
        private var left: [[Mutant]]
        private var running = 0
        private(set) var failures: [Int: Failure] = [:]
        private(set) var error: (any Error)?

        init(_ groups: [[Mutant]]) { left = groups.reversed() }

        /// Returns the next group to try. If there is none, waits while a group is being tried, because its halves may have to
        /// be tried next.
        func next() -> [Mutant]? {
            lock.withLock {
                while left.isEmpty, running > 0 { lock.wait() }
                guard let group = left.popLast() else { return nil }
                running += 1
                return group
            }
        }

        func finish(_ group: [Mutant], _ found: Failure?) {
            lock.withLock {
                running -= 1
                if group.count == 1 {
                    failures[group[0].number] = found
                } else if found != nil {
                    left += Hunt.halves(of: group)
                }
                lock.broadcast()
            }
        }

        func stop(_ error: any Error) {
            lock.withLock {
                running -= 1
                self.error = error
                left = []
                lock.broadcast()
            }
        }
    }
}
