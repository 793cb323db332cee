// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Measures the cost of claims, presenters and directories in the engine. `Scripts/bench-arbiter` runs it.
///
/// The program prints times, and never fails because of a time. With `--check` it fails if an event examines more claims under
/// a large load than under a small load.
@main
struct Benchmark {
    static func main() throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        switch arguments.first {
        case nil: try everything(rounds: 7)
        case "--rounds":
            guard arguments.count == 2, let rounds = Int(arguments[1]), rounds > 0 else { usage() }
            try everything(rounds: rounds)
        case "--claims":
            let numbers = arguments.dropFirst().compactMap { Int($0) }
            guard arguments.count == 4, numbers.count == 3 else { usage() }
            try claimsAlone(numbers[0], elsewhere: numbers[1], depth: numbers[2])
        case "--crowd", "--check":
            let sizes = arguments.dropFirst().compactMap { Int($0) }
            guard sizes.count == arguments.count - 1 else { usage() }
            let isFlat = WaiterLoad.measure(sizes: sizes.isEmpty ? WaiterLoad.sizes : sizes)
            if !isFlat, arguments.first == "--check" { exit(1) }
        default: usage()
        }
    }

    private static func usage() -> Never {
        preconditionFailure(
            "usage: ArbitrationBenchmark [--rounds N | --claims COUNT ELSEWHERE DEPTH | (--crowd | --check) [SIZE ...]]"
        )
    }

    private static func everything(rounds: Int) throws {
        try Memory.measure()
        try UncontestedMeasurement.measure(rounds: rounds)
        try ContentionMeasurement.measure(rounds: rounds)
        try PresenterMeasurement.measure(rounds: rounds)
        ArbiterAlone.measure()
        WaiterLoad.measure()
    }

    /// Makes claims and ends them, and does nothing else. A profiler counts the instructions.
    private static func claimsAlone(_ count: Int, elsewhere: Int, depth: Int) throws {
        let world = try EngineFixture(elsewhere: elsewhere, depth: depth)
        world.claimAndEnd(times: count)
    }
}
