// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Testing

@testable import ControlServer

/// A notice or event that is encoded once for many presenters has the same bytes as if it were encoded for each presenter.
@Suite("The encoder of notices and events")
struct MessageEncoderTests {
    private static let paths: [[UInt8]] = [
        [], Array("d/\u{1}\"\\ä\u{2028}/x".utf8), [0x64, 0x2F, 0xFF, 0xFE], Array("d".utf8),
    ]

    private static var causes: [Cause] {
        var party = Party(process: ProcessID(number: 7, started: 1), ancestors: [])
        (party.program, party.user) = (Array("cat \"1\"".utf8), 12)
        return [
            Cause(party, .write(.updating)), Cause(.nobody, .read()),
            Cause(.outOfBand, .write(.forMoving)),
        ]
    }

    @Test("the encoder writes each notice in the protocol's form, whichever notice it wrote before")
    func encodedNoticesMatchTheProtocol() throws {
        var encoder = NoticeEncoder()
        var (sequence, count) = (UInt64(0), 0)
        for cause in Self.causes {
            for (path, subitem) in Self.pairs {
                for (notice, newPath, newSubitem, version) in Self.kinds {
                    sequence += 1
                    let parameters = PresenterNoticeMessage.Parameters(
                        presenter: 3, path: path, newPath: newPath, turn: 9, sequence: sequence,
                        cause: CauseForm(cause), subitem: subitem, newSubitem: newSubitem,
                        version: version.map { VersionIDFormat.text(of: $0.rawValue) })
                    let expected = try ServerMessage.noticeMessage(PresenterNoticeMessage(notice, parameters))
                        .encoded()
                    let bytes = try encoder.encode(
                        notice, presenter: 3, at: path, movedTo: newPath, turn: 9, sequence: sequence, cause,
                        subitem: subitem, newSubitem: newSubitem, version: version)
                    #expect(
                        String(decoding: bytes, as: UTF8.self) == String(decoding: expected, as: UTF8.self))
                    count += 1
                }
            }
        }
        #expect(count == 300)
    }

    private static var pairs: [([UInt8], [UInt8]?)] {
        paths.flatMap { path in (paths + [nil as [UInt8]?]).map { (path, $0) } }
    }

    private static var kinds: [(PresenterNotice, [UInt8]?, [UInt8]?, VersionNumber?)] {
        [
            (.didMove, paths[1], nil, nil), (.subitemDidMove, nil, paths[2], nil),
            (.reacquire, nil, nil, nil),
            (.didGain, nil, nil, VersionNumber(.max)), (.subitemDidLose, nil, nil, VersionNumber(0x1a)),
        ]
    }

    @Test("the encoder writes each event in the protocol's form, for each subscription")
    func encodedEventsMatchTheProtocol() throws {
        var encoder = EventEncoder()
        for (sequence, (path, newPath)) in Self.pairs.enumerated() {
            let event = EventFeed.FeedEvent(
                sequence: UInt64(sequence), kind: .moved, path: path, newPath: newPath,
                cause: CauseForm(Self.causes[0]))
            for (subscription, known) in [(1, path), (2, path), (30, nil), (1, path)] as [(UInt64, [UInt8]?)]
            {
                let form = EventForm(
                    subscription: subscription, sequence: event.sequence, kind: .moved, path: known,
                    newPath: newPath, cause: event.cause)
                let expected = try ServerMessage.event(form).encoded()
                let bytes = try encoder.encode(event, to: subscription, path: known, newPath: newPath)
                #expect(String(decoding: bytes, as: UTF8.self) == String(decoding: expected, as: UTF8.self))
            }
        }
    }
}
