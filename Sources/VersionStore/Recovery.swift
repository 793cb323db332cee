// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// Makes files and log agree again after a kill, when a store is opened.
extension KeptFiles {
    private struct Census {
        var live: Set<KeptID> = []
        var dropped: Set<KeptID> = []
        var last: KeptID?
        var unreadable = 0

        mutating func count(_ id: KeptID) { last = max(last ?? id, id) }
    }

    func recover() throws(StoreError) {
        guard !isReadOnly else { return }
        var census = try takeCensus()
        let names = try storing { () throws(Errno) in try directory.names() }
        let files = Set(names.compactMap(KeptID.init))
        for id in files { census.count(id) }
        state.withLock { [last = census.last] state in state.lastID = last }
        if census.unreadable > 0 { report("kept.log: \(census.unreadable) torn or unknown lines skipped") }
        try sweep(names)
        for id in files.sorted() {
            if census.dropped.contains(id) {
                try remove(id.description)
            } else if !census.live.contains(id) {
                try adopt(id)
            }
        }
        reportMissing(census.live.subtracting(files))
    }

    /// Nothing is written about them: what was not seen this time may be seen the next.
    private func reportMissing(_ ids: Set<KeptID>) {
        guard let first = ids.min() else { return }
        let others = ids.count > 1 ? ", and \(ids.count - 1) more" : ""
        report("kept/\(first) is missing\(others)")
    }

    private func takeCensus() throws(StoreError) -> Census {
        var census = Census()
        census.unreadable = try forEachLine { line in
            guard let id = KeptID(line.id) else { return }
            census.count(id)
            if line.event == .kept { census.live.insert(id) }
            if line.isDrop {
                census.live.remove(id)
                census.dropped.insert(id)
            }
        }
        return census
    }

    /// Removes copies that were never complete; leaves and reports what is not ours.
    private func sweep(_ names: [String]) throws(StoreError) {
        for name in names where KeptID(name) == nil {
            if name.hasSuffix(Self.incomplete), KeptID(String(name.dropLast(Self.incomplete.count))) != nil {
                try remove(name)
            } else {
                report("kept/\(name) is not the store's and is left alone")
            }
        }
    }

    /// Writes the line a kill came before.
    ///
    /// A linked file still has its owner; a copy has the daemon's. Nobody else gets to read it: in which
    /// directories it lay is not known any more, and these may have been closed to others.
    private func adopt(_ id: KeptID) throws(StoreError) {
        let entry = try storing { () throws(Errno) in
            let file = try directory.path(of: id.description)
            let status = try file.status()
            return KeptEntry(
                id: id, path: [], cause: .recovered, time: id.nanoseconds,
                rights: FileRights(ofOwnerAlone: status),
                method: .unknown, device: status.device, inode: status.inode, size: Int(status.size))
        }
        report("kept/\(id) had no line in kept.log and gets one")
        // A disk on which there is no room for it is no reason not to mount.
        appendOrOwe(LogLine(entry))
    }
}

/// Reading what is kept.
extension KeptFiles {
    /// Every entry whose file is there, oldest first.
    func entries(where isWanted: (KeptEntry) -> Bool) throws(StoreError) -> [KeptEntry] {
        var entries: [KeptID: KeptEntry] = [:]
        _ = try forEachLine { line in
            if let entry = line.entry, isWanted(entry) { entries[entry.id] = entry }
            if line.isDrop, let id = KeptID(line.id) { entries[id] = nil }
        }
        guard !entries.isEmpty else { return [] }
        // After the log, since a file is there before its line.
        let names = try storing { () throws(Errno) in try directory.names() }
        let files = Set(names.compactMap(KeptID.init))
        return entries.values.filter { files.contains($0.id) }.sorted { $0.id < $1.id }
    }

    /// Whether a file is one of those in the directory. The log tells of the documents that were copied.
    func hold(_ status: FileStatus) throws(StoreError) -> Bool {
        try storing { () throws(Errno) in
            guard try directory.status().device == status.device else { return false }
            for name in try directory.names() {
                let file: FileStatus
                do throws(Errno) {
                    file = try directory.path(of: name).status()
                } catch {
                    // What was let go of meanwhile is nobody's any more.
                    guard error == .noEntry else { throw error }
                    continue
                }
                if file.device == status.device, file.inode == status.inode { return true }
            }
            return false
        }
    }

    /// Whether its file is there is seen when it is opened.
    func find(_ id: KeptID) throws(StoreError) -> FoundContents? {
        var entry: KeptEntry?
        var drops: [KeptID: (holder: KeptID?, size: Int?)] = [:]
        _ = try forEachLine { line in
            if line.id == id.description, let kept = line.entry { entry = kept }
            if line.isDrop, let id = KeptID(line.id) { drops[id] = (line.holder, line.size) }
        }
        guard let entry else { return nil }
        guard let drop = drops[id] else { return FoundContents(entry: entry, holder: id, end: nil) }
        guard var holder = drop.holder else { return nil }
        // Each is a later one, so this ends.
        while let next = drops[holder]?.holder, next > holder { holder = next }
        return FoundContents(entry: entry, holder: holder, end: drop.size)
    }

    func open(_ id: KeptID) throws(StoreError) -> OwnedDescriptor {
        do throws(Errno) {
            return try directory.open(id.description)
        } catch .noEntry {
            throw .noSuchEntry
        } catch {
            throw StoreError(error)
        }
    }

    /// Those that are owed come last. A line that is being appended is no line yet; but who reads the log, which may be long, keeps
    /// nobody from appending.
    func forEachLine(_ body: (LogLine) -> Void) throws(StoreError) -> Int {
        let (size, owed) = try state.withLock { state throws(StoreError) in
            do throws(Errno) { return (try state.log.size(), state.owed) } catch { throw StoreError(error) }
        }
        let unreadable = try storing { () throws(Errno) in
            try KeptLog.forEach(in: log, upTo: size, body)
        }
        for line in owed { body(line) }
        return unreadable
    }
}
