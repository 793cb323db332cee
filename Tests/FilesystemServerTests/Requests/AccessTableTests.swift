// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Glibc
import Testing

/// Checks which access the daemon requests for each kernel request, in a table with a row for each kind of request.
@Suite("The access that each kernel request makes") struct AccessTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let flags: Int32
        /// The accesses for the four classes of files, in this order: document, log, private and database.
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
    func anOpensAccessFollowsFromFlagsAndClass(row: Row) {
        let found = Self.classes.map { AccessTable.opening(row.flags, of: $0) }
        #expect(found == row.accesses)
    }

    @Test("A truncation to zero is a write for updating; a change to another size is a write for merging")
    func aTruncationToZeroIsForUpdatingAndAnyOtherResizeIsForMerging() {
        #expect(AccessTable.resizing(to: 0) == .write(.updating))
        #expect(AccessTable.resizing(to: 1) == .write(.forMerging))
    }

    @Test("Creating, removing and renaming are writes for replacing, deleting and moving")
    func createRemoveAndRenameWriteForReplacingDeletingAndMoving() {
        let accesses = [
            AccessTable.creating, AccessTable.removing(isSave: false), AccessTable.moving(isSave: false),
            AccessTable.movingOnto(isUpdate: false, isExchange: false),
        ]
        let options: [WritingOption] = [.forReplacing, .forDeleting, .forMoving, .forReplacing]
        #expect(accesses == options.map { .write($0) })
    }

    @Test("A removal or rename in a save is a write for updating: no presenter is asked about a deletion")
    func aRemovalOrRenameInASaveIsAWriteForUpdating() {
        #expect(AccessTable.removing(isSave: true) == .write(.updating))
        #expect(AccessTable.moving(isSave: true) == .write(.updating))
        #expect(AccessTable.movingOnto(isUpdate: true, isExchange: false) == .write(.updating))
    }

    @Test("An exchange of two files moves both, and replaces neither", arguments: [false, true])
    func anExchangeMovesBothFiles(isUpdate: Bool) {
        #expect(AccessTable.movingOnto(isUpdate: isUpdate, isExchange: true) == .write(.forMoving))
    }

    @Test("A change of attributes is a write for updating")
    func aChangeOfAttributesIsAWriteForUpdating() {
        #expect(AccessTable.changingAttributes == .write(.updating))
    }
}
