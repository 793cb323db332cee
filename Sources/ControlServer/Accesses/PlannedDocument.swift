// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Synchronization

/// The document that an intent of an access concerns.
///
/// While the access waits, another item can get the name that the client asked for. This value then changes to the document of
/// that item.
final class PlannedDocument: Sendable {
    private struct State {
        var document: any TrackedDocument
        var isReleased = false
    }

    private let source: any DocumentSource
    private let state: Mutex<State>

    init(_ document: any TrackedDocument, in source: any DocumentSource) {
        self.source = source
        state = Mutex(State(document: document))
    }

    var document: any TrackedDocument { state.withLock { $0.document } }
    var item: ItemID { document.item }
    var path: [UInt8] { document.path }
    var place: Place { document.place }

    /// If this is the document of the item `former`, changes it to the document of the item `item`.
    func retarget(from former: ItemID, to item: ItemID) {
        guard self.item == former, let next = source.follow(item) else { return }
        let unused = state.withLock { state in
            if state.isReleased { return next }
            defer { state.document = next }
            return state.document
        }
        unused.release()
    }

    func release() {
        let last: (any TrackedDocument)? = state.withLock { state in
            defer { state.isReleased = true }
            return state.isReleased ? nil : state.document
        }
        last?.release()
    }
}
