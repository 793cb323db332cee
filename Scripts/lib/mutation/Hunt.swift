// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Runs the tests against each mutant, the quick ones first, until one of them fails.
struct Hunt {
    struct Stage {
        let name: String
        let arguments: [String]
        var bound = 600.0
    }

    enum Verdict {
        case caught(Failure)
        /// A mutation made by hand was caught, but by no test that cites its rule.
        case caughtByOthers([Failure])
        case survived
    }

    static let scenarios = "^ArbitrationTests\\.ScenarioTests/"
    /// What takes longest comes last.
    static let slow = "\\.(Exhaustive|Differential|Simulation|Liveness|PresenterWorld)Tests/"

    static let stages = [
        Stage(name: "scenarios", arguments: ["--filter", scenarios]),
        Stage(
            name: "other tests",
            arguments: [
                "--filter", "^ArbitrationTests\\.", "--skip", scenarios, "--skip", "\\.RulesTests/", "--skip",
                slow,
            ]),
        Stage(name: "long tests", arguments: ["--filter", "^ArbitrationTests.*" + slow]),
    ]

    let binary: String
    let citations: Citations
    private var stages = Self.stages

    init(binary: String, citations: Citations) {
        self.binary = binary
        self.citations = citations
    }

    /// Without a mutant everything has to pass; how long that takes bounds what follows.
    mutating func measure() throws {
        for index in stages.indices {
            let (failures, seconds) = try run(stages[index], mutant: 0, isLax: false) { _ in false }
            guard failures.isEmpty else {
                throw Complaint(
                    "Nothing is broken yet, and this fails already: "
                        + failures.map(\.description).joined(separator: ", "))
            }
            stages[index].bound = 2 + 3 * seconds
            print(
                String(
                    format: "%@: %.2f s of computing without a mutant; over %.0f s is a hang",
                    stages[index].name, seconds,
                    stages[index].bound))
        }
    }

    private func run(
        _ stage: Stage, mutant: Int, isLax: Bool, until isEnough: ([Failure]) -> Bool
    ) throws -> (failures: [Failure], seconds: Double) {
        var environment = ["MUTANT": String(mutant), "SWIFT_BACKTRACE": "enable=no"]
        if isLax { environment["MUTANT_LAX"] = "1" }
        return try TestRun(
            binary: binary, arguments: stage.arguments, environment: environment, citations: citations,
            bound: stage.bound
        ).failures(until: isEnough)
    }

    func verdict(on mutant: Mutant) throws -> Verdict {
        if let rule = mutant.rule { return try verdict(on: mutant, disabling: rule) }
        for stage in stages {
            let failures = try run(stage, mutant: mutant.number, isLax: false) { !$0.isEmpty }.failures
            if let first = failures.first { return .caught(first) }
        }
        return .survived
    }

    /// A test that cites the rule has to fail, and not only because an invariant is watched there.
    ///
    /// Of an invariant it is the assertion itself that catches.
    private func verdict(on mutant: Mutant, disabling rule: String) throws -> Verdict {
        func shows(_ failure: Failure) -> Bool {
            if case .crash(let message) = failure.how, message.hasPrefix("invariant \(rule)") { return true }
            return failure.cited.contains(rule)
        }
        var all: [Failure] = []
        for stage in stages {
            let failures = try run(stage, mutant: mutant.number, isLax: !rule.hasPrefix("I")) {
                $0.contains(where: shows)
            }.failures
            if let first = failures.first(where: shows) { return .caught(first) }
            all += failures
        }
        return all.isEmpty ? .survived : .caughtByOthers(all)
    }

    /// The verdicts on all of these, found by two processes at a time.
    func verdicts(
        on mutants: [Mutant], _ progress: @escaping (Mutant, Verdict, _ done: Int) -> Void
    ) throws -> [Int: Verdict] {
        let shared = Shared(mutants)
        DispatchQueue.concurrentPerform(iterations: 2) { _ in
            while let mutant = shared.next() {
                do {
                    let verdict = try verdict(on: mutant)
                    shared.add(verdict, mutant) { progress(mutant, verdict, $0) }
                } catch {
                    shared.stop(error)
                }
            }
        }
        if let error = shared.error { throw error }
        return shared.verdicts
    }

    private final class Shared: @unchecked Sendable {
        // @unchecked: the lock guards every property.
        private let lock = NSLock()
        private var left: [Mutant]
        private(set) var verdicts: [Int: Verdict] = [:]
        private(set) var error: (any Error)?

        init(_ mutants: [Mutant]) { left = mutants.reversed() }

        func next() -> Mutant? { lock.withLock { left.popLast() } }

        /// Calls the body with how many there are by now, one call at a time.
        func add(_ verdict: Verdict, _ mutant: Mutant, _ body: (Int) -> Void) {
            lock.withLock {
                verdicts[mutant.number] = verdict
                body(verdicts.count)
            }
        }

        func stop(_ error: any Error) {
            lock.withLock {
                self.error = error
                left = []
            }
        }
    }
}
