// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// The bytes that are left for the lists of a reply.
///
/// Each entry is encoded to find its size, because a name can take more bytes in JSON than in the file system. For example, a
/// control character takes six bytes.
struct ReplyBudget {
    private var left = ProtocolLimits.listBytes

    /// Returns the first entries of a list, as many as fit into the bytes that are left.
    mutating func fill<Entry: Encodable>(with entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: 0)
    }

    /// Returns the first versions of a list, as many as fit into the bytes that are left.
    ///
    /// Usually all fit by their largest possible sizes. Then no version is encoded to find its size.
    mutating func fill(withVersions versions: [VersionForm]) throws -> [VersionForm] {
        let most = versions.reduce(0) { $0 + $1.mostBytes + 1 }
        guard most <= left else { return try fill(with: versions) }
        left -= most
        return versions
    }

    /// Returns the first entries of a list, as many as fit into half of the bytes that are left. The other half is for the
    /// lists that follow.
    mutating func half<Entry: Encodable>(of entries: some Sequence<Entry>) throws -> [Entry] {
        try take(from: entries, keeping: left / 2)
    }

    private mutating func take<Entry: Encodable>(
        from entries: some Sequence<Entry>, keeping rest: Int
    ) throws -> [Entry] {
        var found: [Entry] = []
        for entry in entries {
            // In JSON a comma follows the entry, which is one more byte.
            let bytes = try JSONCodec.encode(entry).count + 1
            guard left - bytes >= rest else { break }
            left -= bytes
            found.append(entry)
        }
        return found
    }
}
