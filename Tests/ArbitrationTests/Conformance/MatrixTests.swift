// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Checks every pair of accesses against the two published tables (rules S1 to S3, G2, G3, Q1).
@Suite("Tables of the accesses that wait for each other")
struct MatrixTests {
    /// The table of situation M1: both accesses are to one item, and the access of the row came first.
    static let sameUnit = #"""
        | first \\ second | r | r-nc | r-ln | r-md | r-up | w | w-mg | w-md | w-mv | w-rp | w-dl |
        |---|---|---|---|---|---|---|---|---|---|---|---|
        | **r** | . | . | . | . | . | W | W | W | W | W | W |
        | **r-nc** | . | . | . | . | . | W | W | W | W | W | W |
        | **r-ln** | . | . | . | . | . | W | W | W | W | W | W |
        | **r-md** | . | . | . | . | . | W | W | W | W | W | W |
        | **r-up** | . | . | . | . | . | s | s | s | s | s | s |
        | **w** | W | W | W | W | W | W | W | W | W | W | W |
        | **w-mg** | W | W | W | W | W | W | W | W | W | W | W |
        | **w-md** | W | W | W | W | W | W | W | W | W | W | W |
        | **w-mv** | W | W | W | W | W | W | W | W | W | W | W |
        | **w-rp** | W | W | W | W | W | W | W | W | W | W | W |
        | **w-dl** | W | W | W | W | W | W | W | W | W | W | W |
        """#

    /// The table of situation M2: the row's access is to a plain directory, and the column's access is to an item below it.
    static let directoryAbove = #"""
        | on directory X \\ on contained Y | r | r-nc | r-ln | r-md | r-up | w | w-mg | w-md | w-mv | w-rp | w-dl |
        |---|---|---|---|---|---|---|---|---|---|---|---|
        | **r** | . | . | . | . | . | . | . | . | . | . | . |
        | **r-nc** | . | . | . | . | . | . | . | . | . | . | . |
        | **r-ln** | . | . | . | . | . | . | . | . | . | . | . |
        | **r-md** | . | . | . | . | . | . | . | . | . | . | . |
        | **r-up** | . | . | . | . | . | . | . | . | . | . | . |
        | **w** | . | . | . | . | . | . | . | . | . | . | . |
        | **w-mg** | . | . | . | . | . | . | . | . | . | . | . |
        | **w-md** | . | . | . | . | . | . | . | . | . | . | . |
        | **w-mv** | X | X | X | X | X | X | X | X | X | X | X |
        | **w-rp** | X | X | X | X | X | X | X | X | X | X | X |
        | **w-dl** | X | X | X | X | X | X | X | X | X | X | X |
        """#

    @Test(
        "two aware accesses to one document, package or directory wait for each other as the table says",
        arguments: Pairing.ofOneUnit)
    func awareAccessesToOneDocumentWaitAsTheTableSays(pairing: Pairing) throws {
        try play(Self.sameUnit, pairing, .aware)
    }

    @Test(
        "two open handles of one document wait for each other as the table says", arguments: Pairing.ofOneUnit
    )
    func handlesOfOneDocumentWaitAsTheTableSays(pairing: Pairing) throws {
        try play(Self.sameUnit, pairing, .handle) { $0.row.hasPrefix("w") }
    }

    @Test(
        "an access to a directory and an access below it wait for each other as the table says",
        arguments: Pairing.ofDirectories)
    func directoryAccessesWaitAsTheTableSays(pairing: Pairing) throws {
        try play(Self.directoryAbove, pairing, .aware)
    }

    /// Plays each cell of a table in four cases: in both orders of arrival, and with the first access held or waiting.
    ///
    /// In M1 the row's access always comes first; for the reverse order the two items are exchanged. In M2 the row's access is
    /// always to the directory; in the reverse order the access below the directory comes first.
    private func play(
        _ table: String, _ pairing: Pairing, _ nature: ClaimRequest.Nature,
        where isWanted: (Matrix.Cell) -> Bool = { _ in true }
    ) throws {
        let matrix = try Matrix(parsing: table)
        #expect(matrix.cells.count == 121)
        var played = 0
        var wrong: [String] = []
        for cell in matrix.cells.filter(isWanted) {
            let row = try #require(Matrix.accesses[cell.row])
            let column = try #require(Matrix.accesses[cell.column])
            #expect(cell.verdict != .waitsForSnapshot || row == .read(.forUploading))
            let straight = (pairing.one.part(row), pairing.other.part(column))
            let turnedRound =
                pairing.isDirectoryAbove
                ? (straight.1, straight.0) : (pairing.other.part(row), pairing.one.part(column))
            for (first, second) in [straight, turnedRound] {
                for isQueued in [false, true] {
                    let outcome = ConflictTrial(nature, first, second, isQueued: isQueued).outcome()
                    if outcome != (cell.verdict == .runs ? .besideEachOther : .afterEachOther) {
                        wrong.append(
                            "\(cell.row) and \(cell.column), \(first.item) first, queued: \(isQueued)")
                    }
                    played += 1
                }
            }
        }
        #expect(wrong.isEmpty)
        print("matrix, \(pairing.testDescription), \(nature): \(played) encounters")
    }
}
