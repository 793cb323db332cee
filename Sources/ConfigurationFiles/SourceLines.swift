// SPDX-License-Identifier: Apache-2.0

/// Finds the line of a key in the text of a configuration file.
///
/// The TOML parser reports a line only for an error of syntax. For other faults, this type searches the text for the key, in
/// its usual notations. If the key is written in another notation, the result is the line of the table that contains the key.
struct SourceLines {
    private struct Place {
        let keys: [String]
        let line: Int
        /// Whether the line is the header of an entry in a list of tables, such as `[[paths]]`.
        var isEntry = false
    }

    private let lines: [Substring]
    private let places: [Place]

    init(_ text: String) {
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        var (table, places): ([String], [Place]) = ([], [])
        for (number, line) in zip(1..., lines) {
            let code = line.drop { $0 == " " || $0 == "\t" }
            if code.hasPrefix("["), let end = code.firstIndex(of: "]") {
                table = Self.keys(in: code[..<end].drop { $0 == "[" })
                places.append(Place(keys: table, line: number, isEntry: code.hasPrefix("[[")))
            } else if let sign = code.firstIndex(of: "="), !code.hasPrefix("#") {
                places.append(Place(keys: table + Self.keys(in: code[..<sign]), line: number))
            }
        }
        self.places = places
    }

    /// Returns the line of a key. If `value` is given, returns the first line after the key that contains `value`, or the line
    /// of the key if there is none.
    func line(of keys: [String], value: String? = nil) -> Int {
        var wanted = keys[...]
        while !wanted.isEmpty {
            if let place = places.first(where: { $0.keys.starts(with: wanted) }) {
                return value.flatMap { line(of: $0, from: place.line) } ?? place.line
            }
            wanted.removeLast()
        }
        return 1
    }

    /// Finds the line of a key in an entry of a list of tables.
    ///
    /// - Parameters:
    ///   - entry: The number of the entry, from 0.
    ///   - list: The name of the list.
    ///   - key: The key in the entry.
    ///   - value: If given, the result is the first line from the key on that contains this value.
    /// - Returns: The line. It is the line of the entry if `key` is nil or is not found, and the line of the list if the list is
    ///   not written as `[[list]]`.
    func line(ofEntry entry: Int, in list: String, key: String? = nil, value: String? = nil) -> Int {
        let headers = places.indices.filter { places[$0].isEntry && places[$0].keys == [list] }
        guard headers.indices.contains(entry) else { return line(of: [list]) }
        let header = headers[entry]
        let own = places[(header + 1)...].prefix { !$0.isEntry && $0.keys.first == list }
        guard let key, let place = own.first(where: { $0.keys == [list, key] }) else {
            return places[header].line
        }
        return value.flatMap { line(of: $0, from: place.line) } ?? place.line
    }

    private func line(of value: String, from first: Int) -> Int? {
        zip(first..., lines[(first - 1)...]).first { _, line in
            line.contains("\"\(value)\"") || line.contains("'\(value)'")
        }?.0
    }

    private static func keys(in text: some StringProtocol) -> [String] {
        text.split(separator: ".").map { part in
            String(part.filter { !$0.isWhitespace && $0 != "\"" && $0 != "'" })
        }
    }
}
