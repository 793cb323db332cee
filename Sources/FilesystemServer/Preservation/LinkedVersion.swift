// SPDX-License-Identifier: Apache-2.0
import Synchronization
import VersionStore

/// A version that is a hard link to its file. While programs have the file open to write, their writes change the
/// version.
///
///     written ──the last writer closes──▶ settled
///                     └──no writer has written──▶ unneeded
///
/// A settled link has no writers, so it does not change any more. Before another program opens the file to write, the
/// link is replaced by a copy.
final class LinkedVersion: Sendable {
    /// The state of the version after a writer has closed the file.
    enum CloseOutcome: Sendable {
        case otherWriters
        /// No writer has written, so the version is not needed.
        case unneeded
        case unchanging
    }

    private struct State {
        var writers: Int
        var isChanged: Bool
    }

    let id: VersionID
    /// The file's stamp when the link was made. Nil if a change soon after the link was made might not change the stamp.
    private let stamp: Stamp?
    private let state: Mutex<State>
    /// Whether the link was replaced by a copy. This lock is held during the copy, so only workers may wait for it.
    private let isDetached = Mutex(false)

    /// Makes the record of a hard link.
    ///
    /// `mustStay`: whether the version stays even if no writer changes the file.
    init(_ id: VersionID, as stamp: Stamp?, writers: Int, mustStay: Bool) {
        self.id = id
        self.stamp = stamp
        state = Mutex(State(writers: writers, isChanged: mustStay))
    }

    /// Returns whether the file was changed since the link was made. Returns true if one of the stamps is missing.
    func hasChanged(to now: Stamp?) -> Bool {
        guard let stamp, let now else { return true }
        return !stamp.hasSameContents(as: now)
    }

    /// Adds a writer that opens the file. Returns false if the link is already settled.
    func join() -> Bool {
        state.withLock { state in
            guard state.writers > 0 else { return false }
            state.writers += 1
            return true
        }
    }

    /// Notes that a writer closes the file. Returns what this means for the version.
    func closeWriter(hasWritten: Bool) -> CloseOutcome {
        state.withLock { state in
            state.writers -= 1
            state.isChanged = state.isChanged || hasWritten
            guard state.writers == 0 else { return .otherWriters }
            return state.isChanged ? .unchanging : .unneeded
        }
    }

    /// Whether no writer has the file open any more.
    var isSettled: Bool { state.withLock { $0.writers == 0 } }

    /// Runs `body`, which replaces the link by a copy. Does nothing if an earlier call of this function has already replaced
    /// the link. May block.
    func detach(_ body: () throws(StoreError) -> Void) throws(StoreError) {
        try isDetached.withLock { (isDone) throws(StoreError) in
            if isDone { return }
            try body()
            isDone = true
        }
    }
}

extension Node {
    /// The store's hard links to the file that have no writers any more.
    var linksWithoutWriters: [LinkedVersion] { linkedVersions.filter(\.isSettled) }

    var hasLinksWithoutWriters: Bool {
        let links = linkedVersions
        return !links.isEmpty && links.contains(where: \.isSettled)
    }
}
