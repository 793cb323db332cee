// SPDX-License-Identifier: Apache-2.0

/// A POSIX access control list, as the kernel stores it in the extended attribute `system.posix_acl_access`.
///
/// The header `include/uapi/linux/posix_acl_xattr.h` of Linux gives the form. A version number comes first: 2, as 4 bytes,
/// little-endian. Entries of 8 bytes follow: tag (2 bytes), permissions (2) and user or group number (4).
struct AccessControlList: Sendable {
    private enum Tag: UInt32 {
        case owner = 0x01
        case user = 0x02
        case owningGroup = 0x04
        case group = 0x08
        case mask = 0x10
        case other = 0x20
    }

    private struct Entry {
        let tag: Tag
        let permissions: UInt32
        let number: UInt32
    }

    private let entries: [Entry]

    /// Parses the bytes of a list. Returns nil for bytes that the kernel would not have written.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= 4, bytes.count % 8 == 4, Self.number(bytes[0..<4]) == 2 else { return nil }
        var entries: [Entry] = []
        for start in stride(from: 4, to: bytes.count, by: 8) {
            guard let tag = Tag(rawValue: Self.number(bytes[start..<start + 2])) else { return nil }
            entries.append(
                Entry(
                    tag: tag, permissions: Self.number(bytes[start + 2..<start + 4]),
                    number: Self.number(bytes[start + 4..<start + 8])))
        }
        for tag in [Tag.owner, .owningGroup, .other] {
            guard entries.count(where: { $0.tag == tag }) == 1 else { return nil }
        }
        self.entries = entries
    }

    /// Whether the list grants `reader` one permission bit, by the access check algorithm of acl(5).
    func allows(_ wanted: UInt32, _ reader: Credentials, owner: UInt32, group: UInt32) -> Bool {
        if reader.user == owner { return has(wanted, .owner) }
        if let named = entries.first(where: { $0.tag == .user && $0.number == reader.user }) {
            return named.permissions & mask & wanted != 0
        }
        let matching = entries.filter { entry in
            switch entry.tag {
            case .owningGroup: reader.groups.contains(group)
            case .group: reader.groups.contains(entry.number)
            default: false
            }
        }
        // If the user is in several groups of the list, one group with the right is enough. If the groups lack the right, the
        // entry for all other users does not apply.
        guard matching.isEmpty else {
            return matching.contains { $0.permissions & mask & wanted != 0 }
        }
        return has(wanted, .other)
    }

    /// The most permissions that named users, named groups and the owning group can have. A list without a mask limits none of
    /// them.
    private var mask: UInt32 { entries.first { $0.tag == .mask }?.permissions ?? .max }

    private func has(_ wanted: UInt32, _ tag: Tag) -> Bool {
        entries.contains { $0.tag == tag && $0.permissions & wanted != 0 }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
}
