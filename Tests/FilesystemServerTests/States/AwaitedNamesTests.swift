// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

/// The names for which documents wait, and the look-ups that find files under these names.
@Suite struct AwaitedNamesTests {
    private final class Document: Sendable {}
    private typealias Names = AwaitedNames<String, Document>

    @Test("A look-up of a name that is not awaited gets no look")
    func onlyAnAwaitedNameHasALook() {
        var names = Names()
        let document = Document()
        #expect(names.look(at: "notes") == nil)
        names.insert(document, at: "notes")
        #expect(names.look(at: "notes") != nil && names.look(at: "other") == nil)
        names.remove(document, at: "notes")
        #expect(names.look(at: "notes") == nil && names.count == 0)
    }

    @Test("A look-up may not give a document a file that has lost its name after the look")
    func aLookIsInvalidAfterALoss() throws {
        var names = Names()
        let document = Document()
        names.insert(document, at: "notes")
        let look = try #require(names.look(at: "notes"))
        #expect(names.isValid(look))
        // Another program makes a file under the name and removes the file again. The document waits as before.
        names.remove(document, at: "notes")
        #expect(!names.isValid(look))
        names.insert(document, at: "notes")
        #expect(!names.isValid(look))
        #expect(names.isValid(try #require(names.look(at: "notes"))))
    }

    @Test("A look stays valid while other names are lost, and while another waiter ends its wait")
    func otherNamesLeaveALookValid() throws {
        var names = Names()
        let (document, other) = (Document(), Document())
        names.insert(document, at: "notes")
        names.insert(other, at: "notes")
        let look = try #require(names.look(at: "notes"))
        names.insert(other, at: "other")
        names.remove(other, at: "notes")
        #expect(names.isValid(look))
    }

    @Test("The documents that wait for one name are in the order in which they began to wait")
    func waitersKeepTheirOrder() {
        var names = Names()
        let documents = (0..<3).map { _ in Document() }
        for document in documents { names.insert(document, at: "notes") }
        names.remove(documents[1], at: "notes")
        #expect(
            names["notes"].map(ObjectIdentifier.init)
                == [documents[0], documents[2]].map(ObjectIdentifier.init))
        #expect(names.count == 1 && names.all.count == 2)
    }
}
