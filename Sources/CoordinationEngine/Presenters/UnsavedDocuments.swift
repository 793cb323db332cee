// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

/// The documents of which presenters have reported unsaved changes.
struct UnsavedDocuments: Sendable {
    private var presenters: [ItemID: Set<PresenterID>] = [:]
    private var items: [PresenterID: ItemID] = [:]

    var count: Int { items.count }

    func contains(_ item: ItemID) -> Bool { presenters[item] != nil }

    func isUnsaved(_ presenter: PresenterID) -> Bool { items[presenter] != nil }

    func presenters(of item: ItemID) -> Set<PresenterID> { presenters[item] ?? [] }

    /// Adds a presenter to the presenters with unsaved changes of an item. Returns false if the presenter was added
    /// before.
    mutating func insert(_ presenter: PresenterID, showing item: ItemID) -> Bool {
        guard items[presenter] != item else { return false }
        remove(presenter)
        items[presenter] = item
        presenters[item, default: []].insert(presenter)
        return true
    }

    mutating func remove(_ presenter: PresenterID) {
        guard let item = items.removeValue(forKey: presenter) else { return }
        presenters[item]?.remove(presenter)
        if presenters[item]?.isEmpty ?? false { presenters[item] = nil }
    }

    /// Moves the entries of one item to another item. Called when the document has become the other item.
    mutating func move(from former: ItemID, to item: ItemID) {
        guard former != item, let moved = presenters.removeValue(forKey: former) else { return }
        for presenter in moved { items[presenter] = item }
        presenters[item, default: []].formUnion(moved)
    }
}

// Unsaved changes of presenters, for programs that read the attributes of a document.
extension Engine {
    /// Whether any presenter has reported unsaved changes. Fast paths read this property, so it takes no lock.
    package var isAnythingUnsaved: Bool { unsavedCount.load(ordering: .relaxed) > 0 }

    package func isUnsaved(_ item: ItemID) -> Bool {
        isAnythingUnsaved && withState { $0.unsaved.contains(item) }
    }

    /// The parties of the presenters that have reported unsaved changes of a document.
    package func partiesWithUnsaved(_ item: ItemID) -> [Party] {
        guard isAnythingUnsaved else { return [] }
        return withState { $0.parties(of: $0.unsaved.presenters(of: item)) }
    }

    /// The parties of the presenters of a document.
    package func partiesPresenting(_ item: ItemID) -> [Party] {
        withState { $0.parties(of: $0.arbiter.presenters(of: item)) }
    }

    /// Stores whether a presenter has unsaved changes. If the presenter does not implement `save`, its report is
    /// ignored.
    package func noteUnsaved(_ isUnsaved: Bool, by presenter: PresenterID) {
        let entry = withState { $0.presenter(presenter) }
        guard let entry, let document = entry.document else { return }
        guard isUnsaved, entry.messages.contains(.save) else { return forgetUnsaved(of: presenter) }
        // The document may become another item during this loop.
        var (item, isNew) = (document.item, false)
        while true {
            let isInserted = withState { state in
                guard state.presenters[presenter] != nil else { return false }
                defer { countUnsaved(in: state) }
                return state.unsaved.insert(presenter, showing: item)
            }
            isNew = isNew || isInserted
            let present = document.item
            if present == item { break }
            item = present
        }
        guard isNew else { return }
        document.invalidateAttributes()
        // A look-up at the same time can give the kernel the old attributes. So the kernel's attributes are dropped
        // once more when such a look-up has been answered.
        timers.schedule(at: (Self.now + Self.longestAnswer).nanoseconds) { [self] in
            if self.isUnsaved(document.item) { document.invalidateAttributes() }
        }
    }

    /// The longest time until the answer to a look-up reaches the kernel.
    private static let longestAnswer = TimeSpan.milliseconds(100)

    private func forgetUnsaved(of presenter: PresenterID) {
        withState { state in
            state.unsaved.remove(presenter)
            countUnsaved(in: state)
        }
    }

    /// Stores the number of presenters with unsaved changes for ``isAnythingUnsaved``. Must be called under the lock.
    func countUnsaved(in state: State) { unsavedCount.store(state.unsaved.count, ordering: .relaxed) }
}
