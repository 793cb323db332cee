// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Synchronization
import Testing

/// Checks which item of a document the engine uses when a presenter registers for the document.
@Suite("Registration of presenters")
struct PresenterRegistrationTests {
    /// A document that is moved into another document just after the engine has read its item.
    private final class PassingDocument: TrackedDocument {
        private let isAsked = Atomic<Bool>(false)
        var item: ItemID {
            isAsked.exchange(true, ordering: .sequentiallyConsistent) ? ItemID(2) : ItemID(1)
        }
        var place: Place { Place() }
        var path: [UInt8] { Array("notes.md".utf8) }
        func release() {}
    }

    @Test("if a document's item changes during its registration, the presenter gets the new item")
    func aPresenterGetsTheItemAfterAChangeDuringRegistration() throws {
        let engine = Engine(
            bounds: Bounds(), timers: try EngineThreads.timers.get(),
            workers: try EngineThreads.workers.get(), log: { _ in })
        let presenter = engine.present(
            PassingDocument(), by: .nobody, implementing: .all, in: Mailbox(wake: {}))
        #expect(!engine.isPresented(ItemID(1)))
        #expect(engine.isPresented(ItemID(2)))
        engine.remove(presenter)
        #expect(!engine.hasAwareClients)
    }
}
