// SPDX-License-Identifier: Apache-2.0

/// A workload: the number of presenters, and the time that each presenter takes to answer.
struct Workload: Hashable {
    let name: String
    let presenters: Int
    /// The time that a presenter takes to answer, in microseconds.
    let delay: Int
    /// How many reads of each kind a round has. The kinds are reads with coordination and reads without coordination.
    let reads: Int

    static let all = [
        Workload(name: "0", presenters: 0, delay: 0, reads: 1000),
        Workload(name: "1", presenters: 1, delay: 0, reads: 1000),
        Workload(name: "10", presenters: 10, delay: 0, reads: 500),
        Workload(name: "100", presenters: 100, delay: 0, reads: 200),
        Workload(name: "slow", presenters: 10, delay: 5000, reads: 100),
    ]

    var title: String {
        delay == 0 ? "\(presenters)" : "\(presenters), each of which takes \(delay / 1000) ms"
    }
}

/// The sockets, file and users of a measurement.
struct Site {
    /// The path of the daemon's control socket.
    let socket: String
    /// The directory that contains the hub's socket.
    let directory: String
    /// The path of the presented file, in the mount.
    let path: String
    /// The users of the presenters, which take turns. The first user is also the user of the reading client.
    let users: [UInt32]
}

/// All processes of a workload, for the reads of both kinds.
final class BenchmarkProcesses {
    private static let slices = 10

    private let world: Workload
    private let children: Children
    private let reader: ReaderProcess

    init(_ world: Workload, at site: Site) throws {
        self.world = world
        children = try Children()
        try children.start(["hub", site.directory, "\(world.presenters)"], as: site.users[0])
        let hub = "\(site.directory)/\(Hub.name)"
        for index in 0..<world.presenters {
            for socket in [hub, site.socket] {
                try children.start(
                    ["present", socket, site.path, "\(world.delay)"],
                    as: site.users[index % site.users.count])
            }
        }
        reader = try ReaderProcess(["read", site.socket, hub, site.path], as: site.users[0])
    }

    /// Measures a round. A round consists of slices. Each slice measures both kinds of reads, in random order.
    func measure(_ chance: inout SplitMixGenerator) throws -> Round {
        let count = max(1, world.reads / Self.slices)
        _ = try reader.call("bare \(count)")
        _ = try reader.call("coordinated \(count)")
        let before = try asked()
        var (bare, coordinated): ([UInt64], [UInt64]) = ([], [])
        for _ in 0..<Self.slices {
            let kinds = chance.next() ? ["bare", "coordinated"] : ["coordinated", "bare"]
            for kind in kinds {
                let took = try reader.call("\(kind) \(count)")
                if kind == "bare" { bare += took } else { coordinated += took }
            }
        }
        let questions = try asked() - before
        guard questions == UInt64(coordinated.count * world.presenters) else {
            complain(
                "\(questions) questions for \(coordinated.count) reads and \(world.presenters) presenters")
        }
        return Round(bare: Quantiles(of: bare), coordinated: Quantiles(of: coordinated))
    }

    /// Returns how many questions the daemon has sent to presenters until now.
    private func asked() throws -> UInt64 { try reader.call("asked")[0] }

    func end() throws {
        try reader.end()
        try children.end()
    }
}

/// Random numbers that depend only on a seed.
struct SplitMixGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func number() -> UInt64 {
        // The next lines are the algorithm SplitMix64.
        state &+= 0x9E37_79B9_7F4A_7C15
        var number = state
        number = (number ^ (number >> 30)) &* 0xBF58_476D_1CE4_E5B9
        number = (number ^ (number >> 27)) &* 0x94D0_49BB_1331_11EB
        return number ^ (number >> 31)
    }

    mutating func next() -> Bool { number() & 1 == 0 }

    mutating func shuffled<Element>(_ elements: [Element]) -> [Element] {
        var (rest, shuffled) = (elements, [Element]())
        while !rest.isEmpty { shuffled.append(rest.remove(at: Int(number() % UInt64(rest.count)))) }
        return shuffled
    }
}
