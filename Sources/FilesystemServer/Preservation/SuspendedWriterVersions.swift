// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import VersionStore

/// The versions of a file that were preserved while the file had suspended writers (D192).
///
/// For each suspended writer, these versions stay:
/// - the first version that the writer wrote;
/// - the last three versions that the writer wrote;
/// - the last three versions that other programs left in the file while the writer had it open.
///
/// The versions in between are dropped. Even without a suspended writer, later saves would have overwritten their
/// contents.
struct SuspendedWriterVersions: Sendable {
    /// The program that has written the contents of a version.
    enum Origin: Hashable, Sendable {
        /// The suspended writer may have written the contents. Another program is about to overwrite them.
        case writer
        /// Another program has written the contents. The suspended writer may overwrite them.
        case others
    }

    struct Version: Sendable {
        let id: VersionID
        let path: [UInt8]
        let rights: FileRights
    }

    private struct WriterVersions: Sendable {
        /// The version with the contents that the writer had written when another program overwrote them for the first
        /// time.
        var first: Version?
        var written: [Version] = []
        var left: [Version] = []

        /// Replaces a version by a newer version with the same contents.
        mutating func replace(_ former: VersionID, by version: Version) {
            if first?.id == former { first = version }
            Self.replace(former, by: version, in: &written)
            Self.replace(former, by: version, in: &left)
        }

        private static func replace(_ former: VersionID, by version: Version, in list: inout [Version]) {
            guard let index = list.firstIndex(where: { $0.id == former }) else { return }
            list[index] = version
        }

        /// Called when the file has the contents of an existing version, so that no new version is made. Moves this
        /// version to the end of each list that contains it.
        ///
        /// If another program left the contents, the version is also added to `left`. Returns the versions that no
        /// longer fit into a list.
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

        /// Adds a version. Returns the versions that no longer fit into a list.
        mutating func insert(_ version: Version, from origin: Origin) -> [Version] {
            // A version that is already in a list cannot be the first version of this writer.
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

    /// How many suspended writers of a file are checked for writes. Each check makes each open slower.
    ///
    /// If a file has more suspended writers, no version is dropped: one of the unchecked writers may have written it.
    static let mostWriters = 16

    /// The suspended writers of a file, for which versions are preserved.
    struct SuspendedWriters {
        private let found: [Handle]
        /// Whether the file has more suspended writers than ``mostWriters``.
        let areMore: Bool

        static let none = SuspendedWriters([])

        /// Makes the list of the suspended writers that are checked for writes.
        ///
        /// `found`: the suspended writers. If there are more than ``mostWriters``, `found` has one more than that
        /// number.
        init(_ found: [any Claimant]) {
            self.found = found.prefix(mostWriters).compactMap { $0 as? Handle }
            areMore = found.count > mostWriters
        }

        var handles: [HandleID] { found.map(\.id) }

        /// Moves the versions of closed handles to the versions that are not dropped. A handle may have been closed just before
        /// a version was added for it.
        func settleClosed() {
            for handle in found where handle.isClosed { handle.settleVersions() }
        }
    }

    private var writers: [HandleID: WriterVersions] = [:]
    /// The versions of writers that have closed the file. They are not dropped until all suspended writers have closed
    /// the file.
    private var settled: Set<VersionID> = []

    var isEmpty: Bool { writers.isEmpty }

    /// Returns the latest of the versions that were preserved for these handles.
    func last(for handles: [HandleID]) -> Version? {
        handles.flatMap { writers[$0]?.all ?? [] }.max { $0.id < $1.id }
    }

    /// Adds a version for these handles. In their lists, it replaces the `former` version, which has the same contents.
    /// Returns the versions that no list contains any more, which can be dropped.
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

    /// Makes an existing version the newest of its lists, because the file has the same contents again. Returns the
    /// versions that no list contains any more, which can be dropped.
    mutating func renew(_ id: VersionID, from origin: Origin, for handles: [HandleID]) -> [VersionID] {
        let version = writers.values.lazy.compactMap { kept in kept.all.first { $0.id == id } }.first
        guard let version else { return [] }
        var gone: Set<VersionID> = []
        for handle in handles {
            gone.formUnion(writers[handle, default: WriterVersions()].renew(version, from: origin).map(\.id))
        }
        return gone.filter { !isNeeded($0) }.sorted()
    }

    /// Notes that a writer has closed the file. From then on its versions are not dropped.
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
    /// Returns the suspended writers of a file. Called when a program overwrites the file's contents, or leaves
    /// contents in the file.
    func writers(
        beside subject: (any JournalSubject)?, because cause: PreservationCause
    ) -> SuspendedWriterVersions.SuspendedWriters {
        guard cause == .claim || cause == .suspendedWriter else { return .none }
        let claim = (subject as? Handle).flatMap { $0.hasClaim ? $0.currentClaim : nil }
        guard let claim = claim ?? (subject as? any PreservationSubject)?.claim else { return .none }
        return SuspendedWriterVersions.SuspendedWriters(
            engine.suspendedWriters(beside: claim, atMost: SuspendedWriterVersions.mostWriters + 1))
    }

    /// Returns the last version that was preserved for these writers. Returns nil if the file's contents, path or
    /// rights differ from that version.
    func lastVersion(
        of node: Node, for writers: SuspendedWriterVersions.SuspendedWriters
    ) throws(StoreError) -> VersionID? {
        guard let store, !writers.handles.isEmpty,
            let last = node.lastVersion(for: writers.handles), last.path == node.path
        else { return nil }
        let descriptor = try Self.descriptor(of: node)
        guard try last.rights == Self.rights(of: descriptor), store.holds(last.id, descriptor.descriptor)
        else {
            return nil
        }
        return last.id
    }

    /// Adds a version to the lists of these suspended writers. Drops the versions that no list contains any more.
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
            gone = node.insertVersion(version, insteadOf: former, from: origin, for: writers.handles)
            writers.settleClosed()
        } catch {
            // The version is in the store, but was added to no list.
            return
        }
        dropVersions(of: gone, chosenAt: moment, for: writers)
    }

    /// Returns whether an existing version can be used for the present contents, so that no new version is needed. The
    /// existing version then becomes the newest.
    func countsOn(
        _ id: VersionID, of node: Node, from origin: SuspendedWriterVersions.Origin,
        for writers: SuspendedWriterVersions.SuspendedWriters
    ) -> Bool {
        guard let store, store.renewIfRecent(id) else { return false }
        let moment = store.moment()
        let gone = node.renewVersion(id, from: origin, for: writers.handles)
        writers.settleClosed()
        dropVersions(of: gone, chosenAt: moment, for: writers)
        // Another thread may have dropped the version in the meantime, so this is checked a second time. From now on
        // the version is not dropped.
        return store.renewIfRecent(id)
    }

    private func dropVersions(
        of gone: [VersionID], chosenAt moment: Int64, for writers: SuspendedWriterVersions.SuspendedWriters
    ) {
        guard !gone.isEmpty, !writers.areMore, let store else { return }
        // The versions are dropped on a worker, so that no program waits for this.
        engine.workers.run { [engine] in
            store.dropVersions(
                of: gone, reason: "the same suspended writer has three later versions",
                unlessNeededSince: moment)
            for id in gone { engine.journal.note(.dropped, at: Engine.now, by: nil, "\(id)") }
        }
    }

    private static func rights(of descriptor: SharedDescriptor) throws(StoreError) -> FileRights {
        do throws(Errno) { return try FileRights(of: descriptor.descriptor) } catch { throw .io(error) }
    }
}

extension Handle {
    /// Notes that a suspended writer's handle is closed. The versions that were preserved for it are not dropped from
    /// then on.
    func settleVersions() {
        guard mayWrite else { return }
        node.closeVersions(of: id)
    }
}
