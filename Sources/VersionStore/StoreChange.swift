// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A change of a version, of which the daemon tells programs.
package struct StoreChange: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The version is in the store now. A suspected version is gained only when its standing becomes `conflict`, because
        /// most suspected versions are dropped a moment later.
        case gained
        case lost
        /// The version was a conflict, and was marked as resolved.
        case resolved
    }

    package let kind: Kind
    /// The version after the change, or the last description of a lost version.
    package let version: VersionRecord
}

/// The functions that are called after each change of a version.
final class ChangeObservers: Sendable {
    private let observers = Mutex<[@Sendable (StoreChange) -> Void]>([])

    func add(_ observer: @escaping @Sendable (StoreChange) -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// Reports a change. The caller holds no lock.
    func report(_ kind: StoreChange.Kind, _ version: VersionRecord) {
        for observer in observers.withLock({ $0 }) { observer(StoreChange(kind: kind, version: version)) }
    }
}
