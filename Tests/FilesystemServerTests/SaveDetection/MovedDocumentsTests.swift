// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let mover = SaveTrace.program(200, parent: 60, session: 60)
private let child = SaveTrace.program(201, parent: 200, session: 60)
private let sibling = SaveTrace.program(202, parent: 60, session: 60)
private let start = Instant(nanoseconds: 0)
private let name = Array("notes.md".utf8)

@Suite("Recently moved documents")
struct MovedDocumentsTests {
    private func moved(_ node: UInt64 = 9, name: [UInt8] = name, at moment: Instant = start)
        -> MovedDocuments.Entry
    {
        MovedDocuments.Entry(name, in: SaveTrace.folder, of: NodeNumber(node), by: mover, at: moment)
    }

    private func fill(
        _ documents: inout MovedDocuments, by saver: SavingProcess?, isFile: Bool = true,
        at moment: Instant = start
    ) -> NodeNumber? {
        documents.resolveFill(name, in: SaveTrace.folder, by: saver, isFile: isFile, at: moment)?.node
    }

    @Test(
        "a file that the mover or its child creates under the old name is the moved document's next contents"
    )
    func aFileThatTheMoverCreatesUnderTheOldNameCompletesTheSave() {
        let cases: [(SavingProcess?, Bool, Bool)] = [
            (mover, true, true), (child, true, true), (sibling, true, false), (nil, true, false),
            (mover, false, false),
        ]
        for (saver, isFile, isSave) in cases {
            var documents = MovedDocuments()
            documents.add(moved())
            let filled = fill(&documents, by: saver, isFile: isFile)
            #expect(filled == (isSave ? NodeNumber(9) : nil), "\(String(describing: saver))")
            #expect(documents.isEmpty)
        }
    }

    @Test("a recorded move expires 2 s after the mover's last step, but at the latest 10 s after the move")
    func aRecordedMoveExpiresTwoSecondsAfterTheMoversLastStep() {
        for (last, late, isSave) in [
            (0, 1_999, true), (0, 2_000, false), (1_500, 3_499, true), (1_500, 3_500, false),
            (9_000, 10_000, false),
        ] as [(UInt64, UInt64, Bool)] {
            var documents = MovedDocuments()
            documents.add(moved())
            documents.noteActivity(by: mover, at: start + .milliseconds(last))
            documents.expire(at: start + .milliseconds(last))
            let filled = fill(&documents, by: mover, at: start + .milliseconds(late))
            #expect(filled == (isSave ? NodeNumber(9) : nil), "\(last) \(late)")
        }
    }

    @Test(
        "a recorded move is final when another program uses the moved file, or the mover changes it"
    )
    func anotherProgramsUseOfAMovedFileConfirmsTheMove() {
        var documents = MovedDocuments()
        documents.add(moved())
        let own = documents.resolveMove(NodeNumber(9), for: mover)
        let elsewhere = documents.resolveMove(NodeNumber(8), for: nil)
        #expect(!own && !elsewhere)
        let other = documents.resolveMove(NodeNumber(9), for: sibling)
        #expect(other && documents.isEmpty)
        documents.add(moved())
        let changed = documents.resolveMove(NodeNumber(9), for: nil)
        #expect(changed && documents.isEmpty)
    }

    @Test("at most 64 moves are remembered, and none by a process that has ended")
    func atMost64MovesAreRemembered() {
        var documents = MovedDocuments()
        documents.add(moved())
        documents.expire(at: start, gone: [mover.process])
        #expect(documents.isEmpty)
        for number in 0..<65 { documents.add(moved(UInt64(number), name: Array("n\(number)".utf8))) }
        #expect(documents.count == 64)
        #expect(!documents.contains(NodeNumber(0)) && documents.contains(NodeNumber(64)))
    }

    @Test("a file that is renamed back to its former name is recognized")
    func aFileThatIsRenamedBackToItsFormerNameIsRecognized() {
        var documents = MovedDocuments()
        documents.add(moved())
        #expect(documents.isReturn(of: NodeNumber(9), to: name, in: SaveTrace.folder))
        #expect(!documents.isReturn(of: NodeNumber(9), to: name + name, in: SaveTrace.folder))
        #expect(!documents.isReturn(of: NodeNumber(8), to: name, in: SaveTrace.folder))
    }
}
