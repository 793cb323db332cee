// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The search for equal contents. Equal contents of one owner are stored only once.
extension VersionFiles {
    /// The most copies of the same size that are compared with a new file at three places: beginning, middle and end.
    private static let mostLooks = 32
    /// The most copies that are compared with a new file byte by byte.
    private static let mostComparisons = 4
    private static let sample = 4096

    /// Searches the store for a copy that equals a file, byte by byte. If there is such a copy, gives it `name` as a further
    /// name, and opens it.
    func share(
        _ file: borrowing OwnedDescriptor, _ contents: Contents, as name: String
    ) -> OwnedDescriptor? {
        let owner = owner(of: contents.rights)
        let size = Int(clamping: contents.status.size)
        let candidates = withState { $0.ledger.copies(of: owner, size: size, most: Self.mostLooks) }
        var comparisons = 0
        for id in candidates where comparisons < Self.mostComparisons {
            do throws(Errno) {
                let copy = try directory.open(id.description)
                let status = try copy.status()
                // Copies of an earlier release belong to root, so their blocks do not count for the owner's disk quota. A new
                // version therefore gets no name of such a copy.
                guard status.user == owner, Int(status.size) == size, try isAlike(file, copy, size) else {
                    continue
                }
                comparisons += 1
                guard try file.hasSameContents(as: copy, count: size), try file.status().size == size
                else { continue }
                try directory.link(copy, as: name)
                return copy
            } catch {
                // The copy was removed during the search, or it cannot have a further name. The search goes on with the next
                // copy. If no copy fits, the caller copies the file.
                continue
            }
        }
        return nil
    }

    /// Returns the latest version of a document, if it equals the file and is recent. The caller then needs no new version.
    func recentVersion(_ file: borrowing OwnedDescriptor, _ request: PreservationRequest) -> VersionID? {
        guard let known = withState({ $0.recent[request.path] }), known.closed == request.closed,
            known.standing.isConflict || !request.standing.isConflict,
            request.standing != .suspected, known.cause.isHistory == request.cause.isHistory,
            request.provenance == nil || request.provenance == known.provenance,
            let present = withIndex({ $0[known.id] }), present.standing == known.standing,
            present.path == request.path
        else { return nil }
        do throws(StoreError) {
            guard try examine(file).rights == known.rights, try holds(known.id, file) else { return nil }
            return renewIfRecent(known.id, for: .several) ? known.id : nil
        } catch {
            // An error here only means that the caller preserves the file as a new version.
            return nil
        }
    }

    /// Whether two files are equal at their end, beginning and middle.
    private func isAlike(
        _ one: borrowing OwnedDescriptor, _ other: borrowing OwnedDescriptor, _ size: Int
    ) throws(Errno) -> Bool {
        for offset in [size - Self.sample, 0, size / 2] {
            let start = max(0, offset)
            guard try one.hasSameContents(as: other, from: start, count: min(Self.sample, size - start))
            else { return false }
        }
        return true
    }

    /// Whether the contents of a file equal a version, byte by byte.
    func holds(_ id: VersionID, _ file: borrowing OwnedDescriptor) throws(StoreError) -> Bool {
        let copy = try open(id)
        return try withStoreErrors { () throws(Errno) in
            let source = try file.reopenForReading()
            let size = Int(clamping: try copy.status().size)
            guard try source.status().size == size, try source.hasSameContents(as: copy, count: size) else {
                return false
            }
            return try source.status().size == size
        }
    }
}

/// The latest version of each document, by the document's path.
///
/// At most 256 documents are remembered. If a document is forgotten, its next version gets a new name in the store, even if the
/// contents are equal.
struct RecentCopies: Sendable {
    private static let most = 256
    private var entries: [[UInt8]: VersionRecord] = [:]

    subscript(path: [UInt8]) -> VersionRecord? { entries[path] }

    mutating func insert(_ entry: VersionRecord) {
        guard !entry.path.isEmpty else { return }
        if entries.count >= Self.most { entries = [:] }
        entries[entry.path] = entry
    }
}
