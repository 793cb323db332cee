// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// A path in a message: as text, and also in base64 if the path is not valid UTF-8.
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

    /// The values of `path` and `pathBytes`, for a message with two members of these names.
    var parts: (String, String?) { (path, pathBytes) }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try container.decodeIfPresent(String.self, forKey: .path) ?? ""
        pathBytes = try container.decodeIfPresent(String.self, forKey: .pathBytes)
    }

    /// Decodes the path of a message that must have a path. For the root of the mount, the path must be present and empty.
    init(required decoder: any Decoder) throws {
        self = try PathForm(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard try container.decodeIfPresent(String.self, forKey: .path) != nil || pathBytes != nil else {
            throw ProtocolFailure.invalidParameters("'path' or 'pathBytes' is missing")
        }
    }

    /// The bytes of the path: from `pathBytes` if that member exists, otherwise from `path`. Nil if `pathBytes` is not base64.
    package var bytes: [UInt8]? {
        guard let pathBytes else { return Array(path.utf8) }
        return Data(base64Encoded: pathBytes).map { Array($0) }
    }

    /// Throws for a path that could lead out of the mount, or that can be understood in two ways. Returns the path in its
    /// normal form.
    ///
    /// If the client sent `pathBytes`, the text of the result is made from these bytes, and the client's text is ignored.
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
