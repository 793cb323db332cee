// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import Coordination
import Testing

private let saver = Stage.program(200, parent: 60, session: 60)
private let stranger = Stage.program(300, parent: 70, session: 70)
private let start = Instant(nanoseconds: 0)

@Suite("Documents that were told to have moved")
struct MovedDocumentsTests {
    private func moved(_ name: String) -> MovedDocument {
        let vacancy = Vacancy(
            directory: Stage.folder, name: Array(name.utf8), document: Stage.document, oldNode: NodeNumber(9),
            actor: saver, evidence: .step, opened: start, claim: ClaimID(1))
        return MovedDocument(vacancy, as: nil)
    }

    private func fill(_ name: String, by actor: Actor?, in documents: inout MovedDocuments) -> String? {
        documents.fills(Array(name.utf8), in: Stage.folder, by: actor).map {
            String(decoding: $0.vacancy.name, as: UTF8.self)
        }
    }

    @Test("the program that moved a document and fills its name has saved it, once")
    func filled() {
        var documents = MovedDocuments()
        documents.insert(moved("a"), at: start)
        documents.insert(moved("b"), at: start)
        #expect(fill("c", by: saver, in: &documents) == nil)
        #expect(fill("a", by: saver, in: &documents) == "a")
        #expect(fill("a", by: saver, in: &documents) == nil)
        #expect(documents.count == 1)
    }

    @Test("what another program puts there is a new file, and the document stays moved")
    func filledByAnother() {
        var documents = MovedDocuments()
        documents.insert(moved("a"), at: start)
        #expect(fill("a", by: stranger, in: &documents) == nil)
        #expect(fill("a", by: saver, in: &documents) == nil)
    }

    @Test("it is expected back for 2 s after the program's last operation, and not after its end")
    func time() {
        var documents = MovedDocuments()
        documents.insert(moved("a"), at: start)
        documents.touched(by: saver, at: start + .seconds(1))
        documents.touched(by: stranger, at: start + .seconds(2))
        documents.expire(at: start + .milliseconds(2_999))
        #expect(documents.count == 1)
        documents.expire(at: start + .seconds(3))
        #expect(documents.count == 0)
        documents.insert(moved("b"), at: start)
        documents.actorExited(saver.process)
        #expect(documents.count == 0)
    }

    @Test("at most 64 are remembered, the oldest forgotten first")
    func bounded() {
        var documents = MovedDocuments()
        for number in 0...64 { documents.insert(moved("\(number)"), at: start) }
        #expect(documents.count == 64)
        #expect(fill("0", by: saver, in: &documents) == nil)
        #expect(fill("64", by: saver, in: &documents) == "64")
    }
}
