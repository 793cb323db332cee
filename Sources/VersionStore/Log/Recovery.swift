// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// Makes the files and the log agree again after a kill, when a store is opened.
extension VersionFiles {
    private struct LogScan {
        var live: [VersionID: ListedVersion] = [:]
        var dropped: Set<VersionID> = []
        var last: VersionID?
        var unreadable = 0
        var lines = 0
        var elapsed: ElapsedTime

        mutating func count(_ id: VersionID) { last = max(last ?? id, id) }
    }

    private struct ListedVersion {
        let entry: VersionRecord?
        /// The elapsed time at its line, in nanoseconds.
        let moment: Int64
    }

    /// The time that passed between lines, computed from times of day that may have been set in between (D211).
    private struct ElapsedTime {
        /// A longer step means that the clock was set.
        let longest: Int64
        private(set) var sum: Int64 = 0
        private(set) var last: Int64?

        init(longest: Int64) { self.longest = longest }

        /// Returns false if the clock was set since the line before.
        @discardableResult
        mutating func go(to time: Int64) -> Bool {
            guard let last else {
                self.last = time
                return true
            }
            let (step, overflow) = time.subtractingReportingOverflow(last)
            guard !overflow, step >= -longest, step <= longest else {
                self.last = time
                return false
            }
            // A line that was written late has an earlier time. The next line is measured from the latest time so far.
            guard step > 0 else { return true }
            self.last = time
            sum = sum.addingReportingOverflow(step).overflow ? .max : sum + step
            return true
        }
    }

    func recover() throws(StoreError) {
        guard !isReadOnly else { return }
        var scan = try scanLog()
        let names = try withStoreErrors { () throws(Errno) in try directory.names() }
        let files = Set(names.compactMap(VersionID.init))
        for id in files { scan.count(id) }
        withState { [last = scan.last, lines = scan.lines] state in
            (state.lastID, state.lines) = (last, lines)
        }
        let ages = ages(by: scan.elapsed)
        if scan.unreadable > 0 { report("kept.log: \(scan.unreadable) torn or unknown lines skipped") }
        try sweep(names)
        for id in files.sorted() {
            if scan.dropped.contains(id) {
                try remove(id.description)
            } else if let listed = scan.live[id] {
                if let entry = listed.entry { enter(entry, bornAt: ages.moment(listed.moment)) }
            } else {
                try adopt(id)
            }
        }
        reportMissing(Set(scan.live.keys).subtracting(files))
        prune()
    }

    /// The ages of versions when the store is opened (D211). From then on a steady clock measures them.
    private struct Ages {
        /// Two readings of the same moment: the elapsed time of the log, and the steady clock.
        let elapsed: Int64
        let steadyNow: Int64

        func moment(_ moment: Int64) -> Int64 { steadyNow &- (elapsed - moment) }
    }

    /// A clock that is far from the last line was set, or is not set yet. The time since that line does not count then.
    private func ages(by scan: ElapsedTime) -> Ages {
        var elapsed = scan
        if !elapsed.go(to: clock()), scan.last ?? 0 >= Self.leastTime {
            report("the clock is far from the time of the last version: the time since then is not counted")
        }
        return Ages(elapsed: elapsed.sum, steadyNow: steadyClock())
    }

    /// 30 days, in nanoseconds.
    private static let longestAbsence: Int64 = 30 * 24 * 60 * 60 * 1_000_000_000

    /// The longest time between two lines that counts, in nanoseconds.
    private var longestStep: Int64 {
        let sum = Int64(clamping: limits.age.nanoseconds).addingReportingOverflow(Self.longestAbsence)
        return sum.overflow ? .max : sum.partialValue
    }

    /// Enters a version that the log lists. If its status cannot be read, it takes no room until the next opening.
    private func enter(_ entry: VersionRecord, bornAt moment: Int64) {
        do throws(Errno) {
            let status = try directory.path(of: entry.id.description).status()
            let version = version(entry, status, bornAt: moment)
            withState { state in state.ledger.insert(entry.id, version) }
        } catch {
            report("kept/\(entry.id) could not be examined (\(error))")
        }
    }

    /// Reports missing versions, but writes no line about them: the next opening may see them again.
    private func reportMissing(_ ids: Set<VersionID>) {
        guard let first = ids.min() else { return }
        let others = ids.count > 1 ? ", and \(ids.count - 1) more" : ""
        report("kept/\(first) is missing\(others)")
    }

    private func scanLog() throws(StoreError) -> LogScan {
        var scan = LogScan(elapsed: ElapsedTime(longest: longestStep))
        scan.unreadable = try forEachLine { line in
            guard let id = VersionID(line.id) else { return }
            scan.count(id)
            scan.lines += 1
            scan.elapsed.go(to: line.nanoseconds)
            if line.event == .kept {
                scan.live[id] = ListedVersion(entry: line.entry, moment: scan.elapsed.sum)
            }
            if line.isDrop {
                scan.live[id] = nil
                scan.dropped.insert(id)
            }
        }
        return scan
    }

    /// Removes incomplete copies; leaves and reports files that are not the store's.
    private func sweep(_ names: [String]) throws(StoreError) {
        for name in names where VersionID(name) == nil {
            if name.hasSuffix(Self.incomplete), VersionID(String(name.dropLast(Self.incomplete.count))) != nil
            {
                try remove(name)
            } else {
                report("kept/\(name) is not the store's and is left alone")
            }
        }
    }

    /// Writes the line that a kill prevented.
    ///
    /// A linked file has its owner, and so has a copy. Only the owner may read the version. The directories above the document
    /// are not known any more, and they may have been closed to others. The age of the version counts from its new line.
    private func adopt(_ id: VersionID) throws(StoreError) {
        let entry = try withStoreErrors { () throws(Errno) in
            let file = try directory.path(of: id.description)
            let status = try file.status()
            let entry = VersionRecord(
                id: id, path: [], cause: .recovered, time: id.nanoseconds,
                rights: FileRights(ofOwnerAlone: status),
                method: .unknown, device: status.device, inode: status.inode, size: Int(status.size))
            let version = version(entry, status, bornAt: steadyClock())
            withState { state in state.ledger.insert(id, version) }
            return entry
        }
        report("kept/\(id) had no line in kept.log and gets one")
        // The mount goes on even if the disk has no room for the line.
        appendOrQueue(LogLine(entry))
    }
}

/// Reading the preserved versions.
extension VersionFiles {
    /// Returns all versions with a file, oldest first.
    func entries(where isWanted: (VersionRecord) -> Bool) throws(StoreError) -> [VersionRecord] {
        var entries: [VersionID: VersionRecord] = [:]
        _ = try forEachLine { line in
            if let entry = line.entry, isWanted(entry) { entries[entry.id] = entry }
            if line.isDrop, let id = VersionID(line.id) { entries[id] = nil }
        }
        guard !entries.isEmpty else { return [] }
        // The directory is listed after the log is read, because a file exists before its line.
        let names = try withStoreErrors { () throws(Errno) in try directory.names() }
        let files = Set(names.compactMap(VersionID.init))
        return entries.values.filter { files.contains($0.id) }.sorted { $0.id < $1.id }
    }

    /// Whether a file is in the directory. The log has the inodes of the documents, not of their copies.
    func hold(_ status: FileStatus) throws(StoreError) -> Bool {
        try withStoreErrors { () throws(Errno) in
            guard try directory.status().device == status.device else { return false }
            for name in try directory.names() {
                let file: FileStatus
                do throws(Errno) {
                    file = try directory.path(of: name).status()
                } catch {
                    // A version that was removed meanwhile does not count.
                    guard error == .noEntry else { throw error }
                    continue
                }
                if file.device == status.device, file.inode == status.inode { return true }
            }
            return false
        }
    }

    /// Finds the file that holds a version. Only opening it shows whether it exists.
    func find(_ id: VersionID) throws(StoreError) -> VersionLocation? {
        var entry: VersionRecord?
        var drops: [VersionID: (holder: VersionID?, size: Int?)] = [:]
        _ = try forEachLine { line in
            if line.id == id.description, let kept = line.entry { entry = kept }
            if line.isDrop, let id = VersionID(line.id) { drops[id] = (line.holder, line.size) }
        }
        guard let entry else { return nil }
        guard let drop = drops[id] else { return VersionLocation(entry: entry, holder: id, end: nil) }
        guard var holder = drop.holder else { return nil }
        // Each holder has a later ID, so the loop ends.
        while let next = drops[holder]?.holder, next > holder { holder = next }
        return VersionLocation(entry: entry, holder: holder, end: drop.size)
    }

    func open(_ id: VersionID) throws(StoreError) -> OwnedDescriptor {
        do throws(Errno) {
            return try directory.open(id.description)
        } catch .noEntry {
            throw .noSuchEntry
        } catch {
            throw StoreError(error)
        }
    }

    /// Calls `body` for each line, pending lines last, and returns the number of unreadable lines. A line that is being
    /// appended is left out. The lock is not held during the reading, because the log may be long.
    func forEachLine(_ body: (LogLine) -> Void) throws(StoreError) -> Int {
        let reading = try withState { state throws(StoreError) in
            do throws(Errno) {
                return LogSnapshot(
                    log: try state.log.reader(), size: try state.log.size(), pendingLines: state.pendingLines)
            } catch {
                throw StoreError(error)
            }
        }
        let unreadable = try withStoreErrors { () throws(Errno) in
            try VersionLog.forEach(in: reading.log, upTo: reading.size, body)
        }
        for line in reading.pendingLines { body(line) }
        return unreadable
    }

    /// A reading of the log, which stays valid when another file replaces the log.
    private struct LogSnapshot: ~Copyable, Sendable {
        let log: OwnedDescriptor
        let size: Int
        let pendingLines: [LogLine]
    }
}
