// SPDX-License-Identifier: Apache-2.0
import Synchronization
import VersionStore

/// A file that was preserved by a link, and that its writers still have open.
///
///     written ──the last writer closes──▶ settled
///                     └──no writer has written──▶ unneeded
///
/// The contents of a settled link do not change any more: a program that opens the file to write waits until the link
/// has contents of its own.
final class LinkedVersion: Sendable {
    /// The outcome of a writer's close.
    enum CloseOutcome: Sendable {
        case otherWriters
        /// None of the writers has written.
        case unneeded
        case unchanging
    }

    private struct State {
        var writers: Int
        var isChanged: Bool
    }

    let id: VersionID
    /// The stamp when it was preserved; nil if the file system's clock would not show a later change.
    private let stamp: Stamp?
    private let state: Mutex<State>
    /// Whether the link has contents of its own. Only workers that copy wait for this lock.
    private let isDetached = Mutex(false)

    /// `mustStay`: it is preserved whether or not a writer has changed it.
    init(_ id: VersionID, as stamp: Stamp?, writers: Int, mustStay: Bool) {
        self.id = id
        self.stamp = stamp
        state = Mutex(State(writers: writers, isChanged: mustStay))
    }

    /// Whether it was written to since it was preserved. If that is unknown, it may have been.
    func hasChanged(to now: Stamp?) -> Bool {
        guard let stamp, let now else { return true }
        return !stamp.hasSameContents(as: now)
    }

    /// One more writer opens the file. Returns false if it is settled by then.
    func join() -> Bool {
        state.withLock { state in
            guard state.writers > 0 else { return false }
            state.writers += 1
            return true
        }
    }

    /// A writer closes the file.
    func closeWriter(hasWritten: Bool) -> CloseOutcome {
        state.withLock { state in
            state.writers -= 1
            state.isChanged = state.isChanged || hasWritten
            guard state.writers == 0 else { return .otherWriters }
            return state.isChanged ? .unchanging : .unneeded
        }
    }

    /// Whether no writer has it open.
    var isSettled: Bool { state.withLock { $0.writers == 0 } }

    /// Runs the body, which may block, unless it has run without an error before.
    func detach(_ body: () throws(StoreError) -> Void) throws(StoreError) {
        try isDetached.withLock { (isDone) throws(StoreError) in
            if isDone { return }
            try body()
            isDone = true
        }
    }
}

extension Node {
    /// Links of the store to the file that have no writers any more.
    var linksWithoutWriters: [LinkedVersion] { linkedVersions.filter(\.isSettled) }

    var hasLinksWithoutWriters: Bool {
        let links = linkedVersions
        return !links.isEmpty && links.contains(where: \.isSettled)
    }
}
