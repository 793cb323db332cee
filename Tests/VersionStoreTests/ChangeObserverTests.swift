// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization
import Testing
import VersionStore

/// Checks of which changes the store tells its observers.
@Suite("Observers of versions")
struct ChangeObserverTests {
    /// The changes of a store, in order.
    private final class Journal: Sendable {
        private let changes = Mutex<[(StoreChange.Kind, VersionID)]>([])
        init(of store: VersionStore) {
            store.observe { [self] change in changes.withLock { $0.append((change.kind, change.version.id)) }
            }
        }
        /// Returns the changes since the last call.
        func take() -> [String] {
            changes.withLock { changes in
                defer { changes = [] }
                return changes.map { "\($0.0) \($0.1)" }
            }
        }
    }

    private let sandbox: Sandbox
    private let store: VersionStore
    private let journal: Journal

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("contents", to: "a")
        store = try sandbox.store()
        journal = Journal(of: store)
    }

    private func preserve(_ standing: Standing?) throws -> VersionID {
        try store.preserveByCopying(
            try sandbox.file("a"),
            for: PreservationRequest(path: bytes("a"), cause: .unseen, standing: standing))
    }

    @Test("a version is gained when it is preserved and lost when it is dropped")
    func aVersionIsGainedAndLost() throws {
        let id = try preserve(.plain)
        #expect(journal.take() == ["gained \(id)"])
        try store.drop(id, reason: "test")
        #expect(journal.take() == ["lost \(id)"])
    }

    @Test("a conflict is gained, resolved once, and lost")
    func aConflictIsResolvedOnce() throws {
        let id = try preserve(.conflict)
        #expect(try store.resolve(id))
        #expect(try !store.resolve(id))
        #expect(journal.take() == ["gained \(id)", "resolved \(id)"])
    }

    @Test("a suspected version is gained only when it is settled as a conflict")
    func aSuspectedVersionIsGainedWhenItIsSettled() throws {
        let dropped = try preserve(.suspected)
        try store.settle(dropped, as: .nothingLost)
        #expect(journal.take() == [])
        let kept = try preserve(.suspected)
        #expect(journal.take() == [])
        try store.settle(kept, as: .conflict)
        #expect(journal.take() == ["gained \(kept)"])
    }
}
