// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// What was kept of a file since it has suspended writers (D192).
///
/// Of each such writer the first version that it has written stays, and the last three; and the last three that others left beside
/// it. What is between these was gone over as other saves are without such a writer.
struct SuspendedWriterVersions: Sendable {
    /// By what a version came about.
    enum Origin: Hashable, Sendable {
        /// Others go over it: the suspended writer may have written it.
        case writer
        /// Another program leaves it, and the suspended writer may go over it.
        case others
    }

    struct Version: Sendable {
        let id: VersionID
        let path: [UInt8]
        let rights: FileRights
    }

    private struct WriterVersions: Sendable {
        /// What the writer had written when others went over it for the first time.
        var first: Version?
        var written: [Version] = []
        var left: [Version] = []

        /// The same contents were kept once more.
        mutating func replace(_ former: VersionID, by version: Version) {
            if first?.id == former { first = version }
            Self.replace(former, by: version, in: &written)
            Self.replace(former, by: version, in: &left)
        }

        private static func replace(_ former: VersionID, by version: Version, in list: inout [Version]) {
            guard let index = list.firstIndex(where: { $0.id == former }) else { return }
            list[index] = version
        }

        /// A version stands for contents that would be kept now: it counts as the newest in each list that has it. What others leave is in
        /// their list, too. Returns those that make way.
        mutating func renew(_ version: Version, from origin: Origin) -> [Version] {
            let (hasWritten, hasLeft) = (
                Self.moveToEnd(version, of: &written), Self.moveToEnd(version, of: &left)
            )
            switch origin {
            case .writer where hasWritten || hasLeft || first?.id == version.id: return []
            case .writer: return Self.insert(version, into: &written).map { [$0] } ?? []
            case .others where hasLeft: return []
            case .others: return Self.insert(version, into: &left).map { [$0] } ?? []
            }
        }

        private static func moveToEnd(_ version: Version, of list: inout [Version]) -> Bool {
            guard let index = list.firstIndex(where: { $0.id == version.id }) else { return false }
            list.append(list.remove(at: index))
            return true
        }

        var all: [Version] { (first.map { [$0] } ?? []) + written + left }

        /// Returns those that make way for another one.
        mutating func insert(_ version: Version, from origin: Origin) -> [Version] {
            // One that was kept a moment ago is not the first.
            let isKnown = all.contains { $0.id == version.id }
            guard first == nil, origin == .writer, !isKnown else { return renew(version, from: origin) }
            first = version
            return []
        }

        private static func insert(_ version: Version, into list: inout [Version]) -> Version? {
            list.append(version)
            return list.count > most ? list.removeFirst() : nil
        }
    }

    private static let most = 3

    /// The suspended writers of a file that are looked at. If there are more, each open would cost as much as there are; then nothing is
    /// let go, because one that is not looked at may have written it.
    static let mostWriters = 16

    /// The suspended writers that a version is kept for.
    struct SuspendedWriters {
        private let found: [Handle]
        /// There are others that are not among these.
        let areMore: Bool

        static let none = SuspendedWriters([])

        /// `found`: one more than are looked at, if there are.
        init(_ found: [any Claimant]) {
            self.found = found.prefix(mostWriters).compactMap { $0 as? Handle }
            areMore = found.count > mostWriters
        }

        var handles: [HandleID] { found.map(\.id) }

        /// A handle may have closed before a version was entered for it.
        func settleClosed() {
            for handle in found where handle.state.withLock({ $0.isClosed }) { handle.settleVersions() }
        }
    }

    private var writers: [HandleID: WriterVersions] = [:]
    /// Of writers that have closed the file, as long as others are there.
    private var settled: Set<VersionID> = []

    var isEmpty: Bool { writers.isEmpty }

    /// The version that was kept last for one of these.
    func last(for handles: [HandleID]) -> Version? {
        handles.flatMap { writers[$0]?.all ?? [] }.max { $0.id < $1.id }
    }

    /// Returns those that may go now. A version that holds the same as a `former` one stands in its place.
    mutating func insert(
        _ version: Version, insteadOf former: VersionID? = nil, from origin: Origin, for handles: [HandleID]
    ) -> [VersionID] {
        var gone: Set<VersionID> = []
        for handle in handles {
            if let former { writers[handle]?.replace(former, by: version) }
            let former = writers[handle, default: WriterVersions()].insert(version, from: origin)
            gone.formUnion(former.map(\.id))
        }
        return gone.filter { !isNeeded($0) }.sorted()
    }

    /// A version that is in a list stands for contents that would be kept now. Returns those that may go.
    mutating func renew(_ id: VersionID, from origin: Origin, for handles: [HandleID]) -> [VersionID] {
        let version = writers.values.lazy.compactMap { kept in kept.all.first { $0.id == id } }.first
        guard let version else { return [] }
        var gone: Set<VersionID> = []
        for handle in handles {
            gone.formUnion(writers[handle, default: WriterVersions()].renew(version, from: origin).map(\.id))
        }
        return gone.filter { !isNeeded($0) }.sorted()
    }

    /// A writer closes the file: what was kept for it stays.
    mutating func close(_ handle: HandleID) {
        guard let kept = writers.removeValue(forKey: handle) else { return }
        settled.formUnion(kept.all.map(\.id))
        if writers.isEmpty { settled = [] }
    }

    private func isNeeded(_ id: VersionID) -> Bool {
        settled.contains(id)
            || writers.values.contains { kept in kept.all.contains { $0.id == id } }
    }
}

extension ContentPreserver {
    /// The suspended writers beside whoever goes over contents, or leaves some.
    func writers(
        beside subject: (any JournalSubject)?, because cause: PreservationCause
    ) -> SuspendedWriterVersions.SuspendedWriters {
        guard cause == .claim || cause == .suspendedWriter else { return .none }
        let claim = (subject as? Handle).flatMap { $0.hasClaim ? $0.currentClaim : nil }
        guard let claim = claim ?? (subject as? ClaimedRequest)?.claim else { return .none }
        return SuspendedWriterVersions.SuspendedWriters(
            engine.suspendedWriters(beside: claim, atMost: SuspendedWriterVersions.mostWriters + 1))
    }

    /// The version that was kept last for these writers, if a file still is as it was then: nothing is kept anew.
    func lastVersion(
        of node: Node, for writers: SuspendedWriterVersions.SuspendedWriters
    ) throws(StoreError) -> VersionID? {
        guard let store, !writers.handles.isEmpty,
            let last = node.state.withLock({ $0.besides.last(for: writers.handles) }), last.path == node.path
        else { return nil }
        let descriptor = try Self.descriptor(of: node)
        guard try last.rights == Self.rights(of: descriptor), store.holds(last.id, descriptor.descriptor)
        else {
            return nil
        }
        return last.id
    }

    /// Enters a version that was kept for suspended writers, and lets those go that are too many.
    func enter(
        _ id: VersionID, of node: Node, insteadOf former: VersionID? = nil,
        from origin: SuspendedWriterVersions.Origin,
        for writers: SuspendedWriterVersions.SuspendedWriters
    ) {
        guard !writers.handles.isEmpty, let store else { return }
        let gone: [VersionID]
        let moment = store.moment()
        do throws(StoreError) {
            let rights = try Self.rights(of: try Self.descriptor(of: node))
            let version = SuspendedWriterVersions.Version(id: id, path: node.path, rights: rights)
            gone = node.state.withLock {
                $0.besides.insert(version, insteadOf: former, from: origin, for: writers.handles)
            }
            writers.settleClosed()
        } catch {
            // It stays, no more.
            return
        }
        dropVersions(of: gone, chosenAt: moment, for: writers)
    }

    /// Whether a version may stand for contents that would be kept now. If so, it counts as the newest.
    func countsOn(
        _ id: VersionID, of node: Node, from origin: SuspendedWriterVersions.Origin,
        for writers: SuspendedWriterVersions.SuspendedWriters
    ) -> Bool {
        guard let store, store.renewIfRecent(id) else { return false }
        let moment = store.moment()
        let gone = node.state.withLock { $0.besides.renew(id, from: origin, for: writers.handles) }
        writers.settleClosed()
        dropVersions(of: gone, chosenAt: moment, for: writers)
        // Another step may have chosen it to go before that. From here on that step leaves it.
        return store.renewIfRecent(id)
    }

    private func dropVersions(
        of gone: [VersionID], chosenAt moment: Int64, for writers: SuspendedWriterVersions.SuspendedWriters
    ) {
        guard !gone.isEmpty, !writers.areMore, let store else { return }
        // No program waits for that.
        engine.workers.run { [engine] in
            store.dropVersions(
                of: gone, reason: "three later ones are kept for the same suspended writer",
                unlessNeededSince: moment)
            for id in gone { engine.journal.note(.dropped, at: Engine.now, by: nil, "\(id)") }
        }
    }

    private static func rights(of descriptor: SharedDescriptor) throws(StoreError) -> FileRights {
        do throws(Errno) { return try FileRights(of: descriptor.descriptor) } catch { throw .io(error) }
    }
}

extension Handle {
    /// What was kept for this handle as a suspended writer stays as it is.
    func settleVersions() {
        guard mayWrite else { return }
        node.state.withLock { state in
            if !state.besides.isEmpty { state.besides.close(id) }
        }
    }
}
