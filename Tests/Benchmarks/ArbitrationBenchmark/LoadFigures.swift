// SPDX-License-Identifier: Apache-2.0

/// The cost of a single event, as an average of several events of one kind.
struct LoadFigure {
    let nanoseconds: Int
    /// How many claims the arbiter examines for an event, on average.
    ///
    /// This number is the same in each run, so it can be checked. The time differs between runs and grows with the load,
    /// because the claims of a large load are not in the processor's cache.
    let examinedClaims: Double

    init<EngineFixture>(
        of world: inout EngineFixture, _ events: Int, examinedClaims: (EngineFixture) -> Int,
        _ body: (inout EngineFixture) -> Void
    ) {
        let before = examinedClaims(world)
        nanoseconds = Int(RoundTimings.cost { body(&world) }) / max(1, events)
        self.examinedClaims = Double(examinedClaims(world) - before) / Double(max(1, events))
    }
}

/// The cost of each kind of event, for loads of several sizes.
struct LoadTable {
    private static let most = 4.0
    /// The other loads are compared with the smallest load. If an event in the smallest load examines fewer claims than this
    /// number, the other loads are compared with this number.
    private static let least = 8.0

    private let rows: [(name: String, figures: [LoadFigure])]

    init(_ columns: [[(name: String, figure: LoadFigure)]]) {
        guard let first = columns.first else {
            rows = []
            return
        }
        rows = first.indices.map { place in (first[place].name, columns.map { $0[place].figure }) }
    }

    /// Prints the table. Returns whether the number of examined claims differs by at most a factor of four between the loads.
    func show() -> Bool {
        var isFlat = true
        for row in rows {
            let ratio =
                (row.figures.last?.examinedClaims ?? 0)
                / max(Self.least, row.figures.first?.examinedClaims ?? 0)
            let verdict = ratio > Self.most ? "  NOT FLAT" : ""
            if ratio > Self.most { isFlat = false }
            let times = row.figures.map { figure in
                "\(figure.nanoseconds / 1000).\(String(1000 + figure.nanoseconds % 1000).dropFirst())"
            }
            let examinedClaims = row.figures.map { "\(Int($0.examinedClaims.rounded()))" }
            print(
                "  " + row.name + String(repeating: " ", count: max(0, 34 - row.name.count))
                    + Self.columns(times, 12) + " |" + Self.columns(examinedClaims, 7) + verdict)
        }
        return isFlat
    }

    private static func columns(_ texts: [String], _ width: Int) -> String {
        texts.map { String(repeating: " ", count: max(1, width - $0.count)) + $0 }.joined()
    }
}
