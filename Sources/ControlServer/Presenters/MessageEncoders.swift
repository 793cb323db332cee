// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Encodes notices as JSON, with the same result as ``ServerMessage`` but faster.
///
/// One event can cause notices to a thousand presenters of one client. These notices differ only in a few numbers, so the rest
/// of their text is encoded only once.
struct NoticeEncoder {
    private var cause: (of: Cause, bytes: [UInt8])?
    private var path: (of: [UInt8], bytes: [UInt8])?
    private var subitem: (of: [UInt8], bytes: [UInt8])?

    mutating func encode(
        _ notice: PresenterNotice, presenter: UInt64, at path: [UInt8], movedTo newPath: [UInt8]?,
        turn: UInt64, sequence: UInt64, _ cause: Cause, subitem: [UInt8]?, newSubitem: [UInt8]?,
        version: VersionNumber? = nil
    ) throws -> [UInt8] {
        // The members are in alphabetical order, as in all messages of the daemon.
        let method = "presenter/\(notice.rawValue)"
        var json = Array("{\"jsonrpc\":\"2.0\",\"method\":\"\(method)\",\"params\":{\"cause\":".utf8)
        json += try bytes(of: cause)
        if let newPath {
            let form = PathForm(newPath)
            json += Array(",\"newPath\":".utf8) + (try JSONCodec.encode(form.path))
            if let bytes = form.pathBytes {
                json += Array(",\"newPathBytes\":".utf8) + (try JSONCodec.encode(bytes))
            }
        }
        if let newSubitem {
            json += Array(",\"newSubitem\":".utf8) + (try JSONCodec.encode(PathForm(newSubitem)))
        }
        json.append(UInt8(ascii: ","))
        json += try members(of: path)
        json += Array(",\"presenter\":\(presenter),\"sequence\":\(sequence)".utf8)
        if let subitem { json += Array(",\"subitem\":".utf8) + (try bytes(ofSubitem: subitem)) }
        json += Array(",\"turn\":\(turn)".utf8)
        if let version {
            json += Array(",\"version\":\"\(VersionIDFormat.text(of: version.rawValue))\"".utf8)
        }
        json += Array("}}".utf8)
        return json
    }

    private mutating func bytes(of cause: Cause) throws -> [UInt8] {
        if let known = self.cause, known.of == cause { return known.bytes }
        let bytes = try JSONCodec.encode(CauseForm(cause))
        self.cause = (cause, bytes)
        return bytes
    }

    /// Returns the member `path` as JSON, and also the member `pathBytes` if the path is not UTF-8.
    private mutating func members(of path: [UInt8]) throws -> [UInt8] {
        if let known = self.path, known.of == path { return known.bytes }
        let bytes = Array(try JSONCodec.encode(PathForm(path)).dropFirst().dropLast())
        self.path = (path, bytes)
        return bytes
    }

    private mutating func bytes(ofSubitem subitem: [UInt8]) throws -> [UInt8] {
        if let known = self.subitem, known.of == subitem { return known.bytes }
        let bytes = try JSONCodec.encode(PathForm(subitem))
        self.subitem = (subitem, bytes)
        return bytes
    }
}

/// Encodes events as JSON, with the same result as ``ServerMessage`` but faster.
///
/// An event for several subscriptions is encoded only once. Each message then gets the number of its subscription.
struct EventEncoder {
    private struct Subject: Equatable {
        let sequence: UInt64
        let path: [UInt8]?
        let newPath: [UInt8]?
    }

    private var known: (subject: Subject, beginning: [UInt8])?
    /// The length of `0}}` at the end of an encoded event. The last member is the number of the subscription, which is encoded
    /// as 0.
    private static let end = 3

    mutating func encode(
        _ event: EventFeed.FeedEvent, to subscription: UInt64, path: [UInt8]?, newPath: [UInt8]?
    ) throws -> [UInt8] {
        let subject = Subject(sequence: event.sequence, path: path, newPath: newPath)
        if known?.subject != subject {
            let form = EventForm(
                subscription: 0, sequence: event.sequence, kind: event.kind, path: path, newPath: newPath,
                cause: event.cause)
            known = (subject, Array(try ServerMessage.event(form).encoded().dropLast(Self.end)))
        }
        return (known?.beginning ?? []) + Array("\(subscription)}}".utf8)
    }
}
