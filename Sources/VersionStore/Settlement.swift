// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// Changes of versions after they were made: their standing (D218), their path (D219), and the synchronisation of deferred
/// versions with the disk.
extension VersionFiles {
    /// Settles a suspected version after the comparison of the contents. Does nothing if the version is not suspected any more.
    /// Returns whether the version is settled by this call.
    func settle(_ id: VersionID, as verdict: Verdict) throws(StoreError) -> Bool {
        switch verdict {
        case .nothingLost:
            guard withIndex({ $0[id]?.standing }) == .suspected else { return false }
            try drop(
                id, LogLine(dropping: id, reason: "the document has all of it", at: clock()), .deferred)
            return true
        case .conflict:
            return try change(id, to: .conflict, from: .suspected, .deferred)
        }
    }

    /// Marks a conflict as resolved. Returns false if the version is no conflict.
    func resolve(_ id: VersionID) throws(StoreError) -> Bool {
        guard withIndex({ $0[id] }) != nil else { throw .noSuchEntry }
        if try change(id, to: .resolved, from: .suspected, .immediate) { return true }
        return try change(id, to: .resolved, from: .conflict, .immediate)
    }

    private func change(
        _ id: VersionID, to standing: Standing, from former: Standing, _ durability: Durability
    ) throws(StoreError) -> Bool {
        guard !isReadOnly else { throw .readOnly }
        let isChanged = withIndex { index in
            guard index[id]?.standing == former else { return false }
            index.settle(id, as: standing)
            return true
        }
        guard isChanged else { return false }
        let line = LogLine(settling: id, as: standing, at: clock())
        do throws(StoreError) {
            // The line of the version can be pending. Then this line waits behind it.
            if isPending(id) {
                withState { $0.pendingLines.append(line) }
            } else {
                try append(line, durability)
            }
        } catch {
            withIndex { $0.settle(id, as: former) }
            throw error
        }
        withState { $0.ledger.setConflict(id, to: standing.isConflict) }
        guard let version = withIndex({ $0[id] }) else { return true }
        if former == .suspected { changes.report(.gained, version) }
        if standing == .resolved { changes.report(.resolved, version) }
        return true
    }

    func isPending(_ id: VersionID) -> Bool {
        withState { state in state.pendingLines.contains { $0.id == id.description && $0.event == .kept } }
    }

    /// Notes that a document or directory has another path. This does not wait for the disk: the line of the move is written by
    /// ``synchronizeDeferred()``.
    func noteMoved(from former: [UInt8], to path: [UInt8], _ kind: DocumentMove.Kind) {
        guard !isReadOnly else { return }
        let time = clock()
        let isConcerned = withIndex { index in
            guard let last = index.lastID,
                index.concerns(former) || kind == .exchange && index.concerns(path)
            else { return false }
            let move = DocumentMove(from: former, to: path, kind: kind, last: last)
            return index.apply(move, writingAt: time)
        }
        if isConcerned { deferral.begin() }
    }

    /// Writes the lines of moves, and brings all deferred versions and lines to the disk.
    func synchronizeDeferred() {
        deferral.end()
        writeMoves()
        let work = withState { state -> DeferredWork in
            defer { state.deferred = DeferredWork() }
            return state.deferred
        }
        guard !work.isEmpty else { return }
        do throws(Errno) {
            for id in work.copies { try synchronizeCopy(id) }
            try directory.synchronize(by: synchronize)
            let log = try withState { (state) throws(Errno) in try state.log.reader() }
            try synchronize(log)
        } catch {
            report("versions of the last moment may not outlive a power cut (\(error))")
        }
    }

    private func synchronizeCopy(_ id: VersionID) throws(Errno) {
        do throws(Errno) {
            try synchronize(try directory.open(id.description))
        } catch {
            // The version was dropped before its synchronisation.
            guard error == .noEntry else { throw error }
        }
    }

    private func writeMoves() {
        let moves = withIndex { $0.takeUnwritten() }
        guard !moves.isEmpty else { return }
        do throws(StoreError) {
            try append(moves.map { LogLine($0.move, at: $0.time) }, .deferred)
        } catch {
            // The versions are still found by the number of the document's file.
            report("the move of \(moves.count) documents with versions has no line in kept.log (\(error))")
        }
        let renamed = withIndex { index in
            moves.flatMap { $0.versions }.compactMap { id in index[id].map { (id, $0.path) } }
        }
        withState { state in for (id, path) in renamed { state.ledger.rename(id, to: path) } }
    }
}

/// What must still be brought to the disk.
struct DeferredWork: Sendable {
    /// The copies whose files were not synchronised when they were made.
    var copies: [VersionID] = []
    var hasLines = false

    var isEmpty: Bool { copies.isEmpty && !hasLines }
}

/// Calls the daemon once when something is deferred, and again only after the deferred work was done.
final class Deferral: Sendable {
    private enum Phase { case idle, begun }

    private struct State: Sendable {
        var phase = Phase.idle
        var call: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// Sets the call. If something is deferred already, calls at once.
    func set(_ call: @escaping @Sendable () -> Void) {
        let isBegun = state.withLock { state in
            state.call = call
            return state.phase == .begun
        }
        if isBegun { call() }
    }

    func begin() {
        let call = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.phase == .idle else { return nil }
            state.phase = .begun
            return state.call
        }
        call?()
    }

    func end() { state.withLock { $0.phase = .idle } }
}
