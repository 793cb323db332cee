// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// Equal contents of one owner are stored once.
extension VersionFiles {
    /// Of how many copies of the same size the beginning, the middle and the end are looked at.
    private static let mostLooks = 32
    /// How many are compared byte by byte.
    private static let mostComparisons = 4
    private static let sample = 4096

    /// Gives a copy that holds what a file holds one more name, and opens it. It is compared, and not believed, that it does.
    func share(
        _ file: borrowing OwnedDescriptor, _ contents: Contents, as name: String
    ) -> OwnedDescriptor? {
        let owner = owner(of: contents.rights)
        let size = Int(clamping: contents.status.size)
        let candidates = state.withLock { $0.ledger.copies(of: owner, size: size, most: Self.mostLooks) }
        var comparisons = 0
        for id in candidates where comparisons < Self.mostComparisons {
            do throws(Errno) {
                let copy = try directory.open(id.description)
                let status = try copy.status()
                // What an earlier release has copied is root's, and not charged to the owner.
                guard status.user == owner, Int(status.size) == size, try isAlike(file, copy, size) else {
                    continue
                }
                comparisons += 1
                guard try file.hasSameContents(as: copy, count: size), try file.status().size == size
                else { continue }
                try directory.link(copy, as: name)
                return copy
            } catch {
                // It was let go of, or has as many names as it can have. The file is copied then, or another one found.
                continue
            }
        }
        return nil
    }

    /// The version that was kept of a document a moment ago, if it holds what the file holds, and stays as long as one that is kept now.
    func recentVersion(_ file: borrowing OwnedDescriptor, _ request: PreservationRequest) -> VersionID? {
        guard let known = state.withLock({ $0.recent[request.path] }), known.closed == request.closed,
            known.cause.isConflict || !request.cause.isConflict
        else { return nil }
        do throws(StoreError) {
            guard try examine(file).rights == known.rights, try holds(known.id, file) else { return nil }
            return renewIfRecent(known.id, for: .several) ? known.id : nil
        } catch {
            // It is kept anew then, or that says why not.
            return nil
        }
    }

    /// Whether two files are equal where that is quickly seen.
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

    /// Whether a file holds what is kept under an ID, byte by byte.
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

/// The copies that were made last, by the path of the document. One that is forgotten is followed by another name of the same copy, no more.
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
