// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// A path on the wire: text, and the bytes in base64 where the text cannot say them.
package struct PathForm: Hashable, Sendable, Codable {
    package var path: String
    package var pathBytes: String?

    package init(_ bytes: [UInt8]) {
        if let text = String(validating: bytes, as: UTF8.self) {
            (path, pathBytes) = (text, nil)
        } else {
            (path, pathBytes) = (String(decoding: bytes, as: UTF8.self), Data(bytes).base64EncodedString())
        }
    }

    package init(_ path: String, _ pathBytes: String?) { (self.path, self.pathBytes) = (path, pathBytes) }

    /// For a message that carries the two among its own members.
    var parts: (String, String?) { (path, pathBytes) }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try container.decodeIfPresent(String.self, forKey: .path) ?? ""
        pathBytes = try container.decodeIfPresent(String.self, forKey: .pathBytes)
    }

    /// For messages that have to name something: the mount's root is an empty path and not a missing one.
    init(required decoder: any Decoder) throws {
        self = try PathForm(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard try container.decodeIfPresent(String.self, forKey: .path) != nil || pathBytes != nil else {
            throw ProtocolFailure.invalidParameters("'path' or 'pathBytes' is missing")
        }
    }

    /// What it names; the bytes win over the text. Nil if they are not base64.
    package var bytes: [UInt8]? {
        guard let pathBytes else { return Array(path.utf8) }
        return Data(base64Encoded: pathBytes).map { Array($0) }
    }

    /// Refuses whatever could lead out of the mount, or mean two things to two readers.
    ///
    /// The result says in both forms what the bytes say, whatever the text said beside them.
    package func checkedBelowRoot() throws(ProtocolFailure) -> PathForm {
        guard let bytes else { throw .invalidParameters("'pathBytes' is not base64") }
        guard !bytes.contains(0) else { throw .invalidParameters("a path cannot contain a zero byte") }
        if bytes.isEmpty { return PathForm(bytes) }
        guard bytes.count <= ProtocolLimits.pathBytes else {
            throw .invalidParameters("a path has at most \(ProtocolLimits.pathBytes) bytes")
        }
        let names = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard
            !names.contains(where: { name in
                name.isEmpty || name.elementsEqual(".".utf8) || name.elementsEqual("..".utf8)
            })
        else {
            throw .invalidParameters("a path is relative to the mount and has no empty, '.' or '..' part")
        }
        return PathForm(bytes)
    }
}
