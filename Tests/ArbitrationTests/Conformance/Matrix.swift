// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A table of accesses that wait for each other, parsed from its published text.
struct Matrix {
    /// A letter of the table. An access arrives while another access is held. The letter says whether the arriving access
    /// waits, and until when.
    enum MatrixVerdict: String {
        case runs = "."
        /// The arriving access waits until the held access has ended.
        case waits = "W"
        /// The arriving access waits until the held access has made a copy of the file. The held access ends after its copy.
        case waitsForSnapshot = "s"
        /// The access that comes later waits for the access that came earlier.
        case exclusive = "X"
    }

    struct Cell {
        let row: String
        let column: String
        let verdict: MatrixVerdict
    }

    struct MatrixSyntaxError: Error {
        let line: String
    }

    let cells: [Cell]

    init(parsing text: String) throws {
        let rows = text.split(separator: "\n").map(Self.fields)
        guard rows.count > 2, let heading = rows.first?.dropFirst() else {
            throw MatrixSyntaxError(line: text)
        }
        var cells: [Cell] = []
        for row in rows.dropFirst(2) {
            guard row.count == heading.count + 1, let name = row.first.map(Self.plain) else {
                throw MatrixSyntaxError(line: row.joined(separator: "|"))
            }
            for (column, mark) in zip(heading, row.dropFirst()) {
                guard let verdict = MatrixVerdict(rawValue: mark) else { throw MatrixSyntaxError(line: mark) }
                cells.append(Cell(row: name, column: column, verdict: verdict))
            }
        }
        self.cells = cells
    }

    private static func fields(of line: Substring) -> [String] {
        line.split(separator: "|").map {
            String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
        }
    }

    private static func plain(_ name: String) -> String { name.filter { $0 != "*" } }

    /// The names that the tables use for accesses, and the access for each name.
    static let accesses: [String: Access] = [
        "r": .read(), "r-nc": .read(.withoutChanges), "r-ln": .read(.resolvesSymbolicLink),
        "r-md": .read(.immediatelyAvailableMetadataOnly), "r-up": .read(.forUploading),
        "w": .write(.updating), "w-mg": .write(.forMerging), "w-md": .write(.contentIndependentMetadataOnly),
        "w-mv": .write(.forMoving), "w-rp": .write(.forReplacing), "w-dl": .write(.forDeleting),
    ]
}
