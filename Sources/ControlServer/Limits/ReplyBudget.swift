// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// What room is left for the lists of one reply.
///
/// How long a name is in JSON, its bytes do not tell: there are six for a control character, and twice as many as it
/// should have for a name that is no text. So each entry is encoded to be measured.
struct ReplyBudget {
    private var left = ProtocolLimits.listBytes

    /// The first ones, as many as have room.
    mutating func fill<Entry: Encodable>(with entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: 0)
    }

    /// The same, for a list that another comes after.
    mutating func half<Entry: Encodable>(of entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: left / 2)
    }

    private mutating func take<Entry: Encodable>(
        from entries: some Sequence<Entry>, keeping rest: Int
    ) throws -> [Entry] {
        var found: [Entry] = []
        for entry in entries {
            // And a comma.
            let bytes = try JSONCodec.encode(entry).count + 1
            guard left - bytes >= rest else { break }
            left -= bytes
            found.append(entry)
        }
        return found
    }
}
