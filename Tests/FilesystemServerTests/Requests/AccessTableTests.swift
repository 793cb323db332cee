// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Glibc
import Testing

/// The mapping from kernel requests to accesses, row by row.
@Suite struct AccessTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let flags: Int32
        /// By class: document, log, private, database.
        let accesses: [Access?]
        var testDescription: String { what }
    }

    static let classes: [ItemClass] = [.document, .log, .private, .database]
    static let forMerging = Access.write(.forMerging)
    static let updating = Access.write(.updating)

    static let openQueue = [
        Row(what: "reading", flags: O_RDONLY, accesses: [.read(), nil, nil, nil]),
        Row(
            what: "reading without waiting", flags: O_RDONLY | O_NONBLOCK, accesses: [.read(), nil, nil, nil]),
        Row(what: "writing", flags: O_WRONLY, accesses: [forMerging, forMerging, nil, nil]),
        Row(what: "both", flags: O_RDWR, accesses: [forMerging, forMerging, nil, nil]),
        Row(what: "appending", flags: O_WRONLY | O_APPEND, accesses: [forMerging, nil, nil, nil]),
        Row(what: "truncating", flags: O_WRONLY | O_TRUNC, accesses: [updating, updating, nil, nil]),
        Row(
            what: "truncating a log", flags: O_WRONLY | O_APPEND | O_TRUNC,
            accesses: [updating, updating, nil, nil]),
        Row(what: "truncating to read", flags: O_RDONLY | O_TRUNC, accesses: [updating, updating, nil, nil]),
    ]

    @Test("The access of an open follows from its flags and the class of its file", arguments: openQueue)
    func openMapsToAccess(row: Row) {
        let found = Self.classes.map { AccessTable.opening(row.flags, of: $0) }
        #expect(found == row.accesses)
    }

    @Test("A change of size updates if nothing stays, and merges if a part stays")
    func resizeMapsToAccess() {
        #expect(AccessTable.resizing(to: 0) == .write(.updating))
        #expect(AccessTable.resizing(to: 1) == .write(.forMerging))
    }

    @Test("Changes of names are the writes of Apple's options")
    func nameChangesMapToWrites() {
        let accesses = [
            AccessTable.creating, AccessTable.removing(isSave: false), AccessTable.moving(isSave: false),
            AccessTable.movingOnto(isUpdate: false, isExchange: false),
        ]
        let options: [WritingOption] = [.forReplacing, .forDeleting, .forMoving, .forReplacing]
        #expect(accesses == options.map { .write($0) })
    }

    @Test("A removal or rename that is a step of a save is an update: no presenter is asked about a deletion")
    func saveStepUpdatesDocument() {
        #expect(AccessTable.removing(isSave: true) == .write(.updating))
        #expect(AccessTable.moving(isSave: true) == .write(.updating))
        #expect(AccessTable.movingOnto(isUpdate: true, isExchange: false) == .write(.updating))
    }

    @Test("Of two exchanged files neither is replaced", arguments: [false, true])
    func exchangeMovesBoth(isUpdate: Bool) {
        #expect(AccessTable.movingOnto(isUpdate: isUpdate, isExchange: true) == .write(.forMoving))
    }

    @Test("Changes of attributes are updates without a wait")
    func attributesAreUpdates() { #expect(AccessTable.changingAttributes == .write(.updating)) }
}
