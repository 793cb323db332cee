// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// The bytes that are left for the lists of a reply.
///
/// The length of a name in JSON differs from its length in bytes: a control character takes six bytes, and a name that is not
/// UTF-8 is sent twice. So each entry is encoded to be measured.
struct ReplyBudget {
    private var left = ProtocolLimits.listBytes

    /// The first entries, as many as fit.
    mutating func fill<Entry: Encodable>(with entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: 0)
    }

    /// The first entries that fit into half of the rest; another list follows.
    mutating func half<Entry: Encodable>(of entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: left / 2)
    }

    private mutating func take<Entry: Encodable>(
        from entries: some Sequence<Entry>, keeping rest: Int
    ) throws -> [Entry] {
        var found: [Entry] = []
        for entry in entries {
            // A comma follows each entry.
            let bytes = try JSONCodec.encode(entry).count + 1
            guard left - bytes >= rest else { break }
            left -= bytes
            found.append(entry)
        }
        return found
    }
}
