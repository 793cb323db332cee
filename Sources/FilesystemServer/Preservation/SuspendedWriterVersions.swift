// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import VersionStore

/// The versions of a file that were preserved since it has suspended writers (D192).
///
/// For each such writer, these versions stay:
/// - the first that it has written,
/// - the last three that it has written, and
/// - the last three that others left beside it.
///
/// Versions in between are dropped, because without such a writer other saves would overwrite these contents, too.
struct SuspendedWriterVersions: Sendable {
    /// The origin of a version.
    enum Origin: Hashable, Sendable {
        /// Others overwrite the contents: the suspended writer may have written them.
        case writer
        /// Another program leaves the contents, and the suspended writer may overwrite them.
        case others
    }

    struct Version: Sendable {
        let id: VersionID
        let path: [UInt8]
        let rights: FileRights
    }

    private struct WriterVersions: Sendable {
        /// The writer's contents when others overwrote them for the first time.
        var first: Version?
        var written: [Version] = []
        var left: [Version] = []

        /// The same contents were preserved once more.
        mutating func replace(_ former: VersionID, by version: Version) {
            if first?.id == former { first = version }
            Self.replace(former, by: version, in: &written)
            Self.replace(former, by: version, in: &left)
        }

        private static func replace(_ former: VersionID, by version: Version, in list: inout [Version]) {
            guard let index = list.firstIndex(where: { $0.id == former }) else { return }
            list[index] = version
        }

        /// Makes a version the newest in each list that has it, because it stands for contents to be preserved now. A
        /// version that others leave enters their list as well. Returns the versions above the limit.
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

        /// Returns the versions above the limit after the insertion.
        mutating func insert(_ version: Version, from origin: Origin) -> [Version] {
            // A version that was in a list before is not the first.
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

    /// How many suspended writers of a file are observed; each more would make each open slower.
    ///
    /// If there are more, no version is dropped, because an unobserved writer may have written it.
    static let mostWriters = 16

    /// The suspended writers for which a version is preserved.
    struct SuspendedWriters {
        private let found: [Handle]
        /// Whether there are further suspended writers.
        let areMore: Bool

        static let none = SuspendedWriters([])

        /// `found`: up to one writer more than are observed, to tell whether there are more.
        init(_ found: [any Claimant]) {
            self.found = found.prefix(mostWriters).compactMap { $0 as? Handle }
            areMore = found.count > mostWriters
        }

        var handles: [HandleID] { found.map(\.id) }

        /// A handle may have closed before a version was entered for it.
        func settleClosed() {
            for handle in found where handle.isClosed { handle.settleVersions() }
        }
    }

    private var writers: [HandleID: WriterVersions] = [:]
    /// Versions of writers that have closed the file, as long as other writers are open.
    private var settled: Set<VersionID> = []

    var isEmpty: Bool { writers.isEmpty }

    /// The last version that was preserved for one of these handles.
    func last(for handles: [HandleID]) -> Version? {
        handles.flatMap { writers[$0]?.all ?? [] }.max { $0.id < $1.id }
    }

    /// Returns the versions that may be dropped. A version with the same contents as a `former` version replaces it.
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

    /// Renews a version that stands for contents to be preserved now. Returns the versions that may be dropped.
    mutating func renew(_ id: VersionID, from origin: Origin, for handles: [HandleID]) -> [VersionID] {
        let version = writers.values.lazy.compactMap { kept in kept.all.first { $0.id == id } }.first
        guard let version else { return [] }
        var gone: Set<VersionID> = []
        for handle in handles {
            gone.formUnion(writers[handle, default: WriterVersions()].renew(version, from: origin).map(\.id))
        }
        return gone.filter { !isNeeded($0) }.sorted()
    }

    /// A writer closes the file: its versions stay.
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
    /// The suspended writers beside a subject that overwrites or leaves contents.
    func writers(
        beside subject: (any JournalSubject)?, because cause: PreservationCause
    ) -> SuspendedWriterVersions.SuspendedWriters {
        guard cause == .claim || cause == .suspendedWriter else { return .none }
        let claim = (subject as? Handle).flatMap { $0.hasClaim ? $0.currentClaim : nil }
        guard let claim = claim ?? (subject as? any PreservationSubject)?.claim else { return .none }
        return SuspendedWriterVersions.SuspendedWriters(
            engine.suspendedWriters(beside: claim, atMost: SuspendedWriterVersions.mostWriters + 1))
    }

    /// The last version for these writers, if the file still equals it: then no new version is needed.
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

    /// Enters a version that was preserved for suspended writers, and drops those above the limit.
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
            // The version stays without an entry.
            return
        }
        dropVersions(of: gone, chosenAt: moment, for: writers)
    }

    /// Whether a version may stand for contents that would be preserved now. If so, it counts as the newest.
    func countsOn(
        _ id: VersionID, of node: Node, from origin: SuspendedWriterVersions.Origin,
        for writers: SuspendedWriterVersions.SuspendedWriters
    ) -> Bool {
        guard let store, store.renewIfRecent(id) else { return false }
        let moment = store.moment()
        let gone = node.renewVersion(id, from: origin, for: writers.handles)
        writers.settleClosed()
        dropVersions(of: gone, chosenAt: moment, for: writers)
        // Another step may have chosen to drop it before. From here on that step leaves it.
        return store.renewIfRecent(id)
    }

    private func dropVersions(
        of gone: [VersionID], chosenAt moment: Int64, for writers: SuspendedWriterVersions.SuspendedWriters
    ) {
        guard !gone.isEmpty, !writers.areMore, let store else { return }
        // On a worker, because no program waits for this.
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
    /// The versions that were preserved for this handle as a suspended writer stay from now on.
    func settleVersions() {
        guard mayWrite else { return }
        node.closeVersions(of: id)
    }
}
