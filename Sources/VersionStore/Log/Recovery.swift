// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// Makes the files and the log of a store agree when the store is opened. They disagree if the daemon was killed between two
/// steps.
extension VersionFiles {
    private struct LogScan {
        var live: [VersionID: ListedVersion] = [:]
        var index = VersionIndex()
        var dropped: Set<VersionID> = []
        var unreadable = 0
        var lines = 0
        var elapsed: ElapsedTime
    }

    private struct ListedVersion {
        /// The sum of the times between the lines of the log, from the first line to the line of this version, in nanoseconds.
        let moment: Int64
    }

    /// The time that passed between the lines of the log, computed from the times of day in the lines. Jumps are left out,
    /// because the clock can have been set between two lines (D211: versions age by a clock that does not jump).
    private struct ElapsedTime {
        /// The longest time between two lines that counts. If two lines are further apart, the clock was set between them.
        let longest: Int64
        private(set) var sum: Int64 = 0
        private(set) var last: Int64?

        init(longest: Int64) { self.longest = longest }

        /// Adds the time between the previous line and a line with the time `time`. If the clock was set between the two lines,
        /// adds nothing and returns false.
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
            // A line that was written late can have an earlier time than the previous line. The time of this line is then
            // ignored.
            guard step > 0 else { return true }
            self.last = time
            sum = sum.addingReportingOverflow(step).overflow ? .max : sum + step
            return true
        }
    }

    func recover(copyingAtMost largestCopy: Int) throws(StoreError) {
        var scan = try scanLog()
        let names = try withStoreErrors { () throws(Errno) in try directory.names() }
        let files = Set(names.compactMap(VersionID.init))
        for id in Set(scan.index.ids).subtracting(files) { scan.index.remove(id) }
        for id in files { scan.index.noteID(id) }
        withIndex { [index = scan.index] in $0 = index }
        guard !isReadOnly else { return }
        withState { [lines = scan.lines] state in state.lines = lines }
        let ages = ages(by: scan.elapsed)
        if scan.unreadable > 0 { report("kept.log: \(scan.unreadable) torn or unknown lines skipped") }
        try sweep(names)
        var links = LinkSurvey()
        for id in files.sorted() {
            if scan.dropped.contains(id) {
                try remove(id.description)
            } else if let listed = scan.live[id] {
                if let entry = scan.index[id] {
                    links.note(id, entry.method, enter(entry, bornAt: ages.moment(listed.moment)))
                }
            } else {
                links.note(id, .unknown, try adopt(id))
            }
        }
        reportMissing(Set(scan.live.keys).subtracting(files))
        try settleSuspected(in: scan.index)
        prune()
        detach(links, limit: largestCopy)
    }

    /// Makes each suspected version a conflict. The daemon ended before the contents were compared, so it is not known whether
    /// something was lost.
    private func settleSuspected(in scanned: VersionIndex) throws(StoreError) {
        let suspected = scanned.ids.filter { scanned[$0]?.standing == .suspected }.sorted()
        guard !suspected.isEmpty else { return }
        let time = clock()
        do throws(StoreError) {
            try append(suspected.map { LogLine(settling: $0, as: .conflict, at: time) })
        } catch {
            // The next opening writes the lines.
            report("\(suspected.count) conflicts have no line in kept.log yet (\(error))")
        }
        withIndex { index in for id in suspected { index.settle(id, as: .conflict) } }
        withState { state in for id in suspected { state.ledger.setConflict(id, to: true) } }
    }

    /// Converts times in the log to times on the steady clock. The steady clock measures the age of versions while the store is
    /// open (D211).
    private struct Ages {
        /// The time from the first line of the log to this opening, without jumps of the clock, in nanoseconds. `steadyNow` is
        /// the steady clock at this opening.
        let elapsed: Int64
        let steadyNow: Int64

        func moment(_ moment: Int64) -> Int64 { steadyNow &- (elapsed - moment) }
    }

    /// Returns the conversion of log times to ages.
    ///
    /// If the time of day is far from the time of the last line, the clock was set, or is not set yet. In this case the time
    /// since the last line does not count for the ages.
    private func ages(by scan: ElapsedTime) -> Ages {
        var elapsed = scan
        if !elapsed.go(to: clock()), scan.last ?? 0 >= Self.leastTime {
            report("the clock is far from the time of the last version: the time since then is not counted")
        }
        return Ages(elapsed: elapsed.sum, steadyNow: steadyClock())
    }

    /// 30 days, in nanoseconds. A time between two lines counts for the ages of versions if it is at most the age limit plus
    /// this time.
    private static let longestAbsence: Int64 = 30 * 24 * 60 * 60 * 1_000_000_000

    /// The longest time between two lines that counts for the ages, in nanoseconds.
    private var longestStep: Int64 {
        let sum = Int64(clamping: limits.age.nanoseconds).addingReportingOverflow(Self.longestAbsence)
        return sum.overflow ? .max : sum.partialValue
    }

    /// Enters a version of the log into the ledger, and returns the status of its file. If the file cannot be examined, the
    /// version counts for no room until the next opening of the store.
    private func enter(_ entry: VersionRecord, bornAt moment: Int64) -> FileStatus? {
        do throws(Errno) {
            let status = try directory.path(of: entry.id.description).status()
            let version = version(entry, status, bornAt: moment)
            withState { state in state.ledger.insert(entry.id, version) }
            return status
        } catch {
            report("kept/\(entry.id) could not be examined (\(error))")
            return nil
        }
    }

    /// Reports versions that have a line in the log but no file. No `dropped` line is written for them, because the next
    /// opening can find the files.
    private func reportMissing(_ ids: Set<VersionID>) {
        guard let first = ids.min() else { return }
        let others = ids.count > 1 ? ", and \(ids.count - 1) more" : ""
        report("kept/\(first) is missing\(others)")
    }

    private func scanLog() throws(StoreError) -> LogScan {
        var scan = LogScan(elapsed: ElapsedTime(longest: longestStep))
        scan.unreadable = try forEachLine { line in
            guard let id = VersionID(line.id) else { return }
            scan.index.noteID(id)
            scan.lines += 1
            scan.elapsed.go(to: line.nanoseconds)
            scan.index.replay(line)
            if line.event == .kept {
                scan.live[id] = ListedVersion(moment: scan.elapsed.sum)
            }
            if line.isDrop {
                scan.live[id] = nil
                scan.dropped.insert(id)
            }
        }
        return scan
    }

    /// Removes the files of incomplete copies. A file with a name that the store does not use is reported, and stays.
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

    /// Writes the missing log line of a preserved file, and returns the status of the file. The daemon was killed after it preserved the file and before it wrote
    /// the line.
    ///
    /// Only the document's owner, which is the owner of the file, may read the version. The directories above the document are
    /// unknown, and were possibly closed to other users. The age of the version is counted from this line.
    private func adopt(_ id: VersionID) throws(StoreError) -> FileStatus {
        let (entry, status) = try withStoreErrors { () throws(Errno) in
            let file = try directory.path(of: id.description)
            let status = try file.status()
            let entry = VersionRecord(
                id: id, path: [], cause: .recovered, time: id.nanoseconds,
                rights: FileRights(ofOwnerAlone: status),
                method: .unknown, device: status.device, inode: status.inode, size: Int(status.size))
            let version = version(entry, status, bornAt: steadyClock())
            withIndex { _ = $0.insert(entry) }
            withState { state in state.ledger.insert(id, version) }
            return (entry, status)
        }
        report("kept/\(id) had no line in kept.log and gets one")
        // If the disk has no room for the line, the line becomes pending, and the mount succeeds all the same.
        appendOrQueue(LogLine(entry))
        return status
    }
}

/// Functions that find and open the contents of versions.
extension VersionFiles {
    /// Whether a file with this status is in `kept`. The log cannot answer this, because its inode numbers are those of the
    /// documents, not those of the copies.
    func hold(_ status: FileStatus) throws(StoreError) -> Bool {
        try withStoreErrors { () throws(Errno) in
            guard try directory.status().device == status.device else { return false }
            for name in try directory.names() {
                let file: FileStatus
                do throws(Errno) {
                    file = try directory.path(of: name).status()
                } catch {
                    // The version was removed during the search, so its file is not the wanted file.
                    guard error == .noEntry else { throw error }
                    continue
                }
                if file.device == status.device, file.inode == status.inode { return true }
            }
            return false
        }
    }

    /// Finds the file that holds the contents of a version. The index has every version but those that were dropped because a
    /// later version begins with their contents; these are found by the log. The file itself can be missing; the caller sees
    /// this when it opens the file.
    func find(_ id: VersionID) throws(StoreError) -> VersionLocation? {
        if let entry = withIndex({ $0[id] }) { return VersionLocation(entry: entry, holder: id, end: nil) }
        var entry: VersionRecord?
        var drops: [VersionID: (holder: VersionID?, size: Int?)] = [:]
        _ = try forEachLine { line in
            if line.id == id.description, let kept = line.entry { entry = kept }
            if let move = line.documentMove, move.last >= id, let former = entry?.path,
                let path = VersionIndex.path(former, after: move)
            {
                entry?.path = path
            } else if line.event == .moved, line.id == id.description, line.formerPathBytes == nil,
                let path = line.pathBytes
            {
                entry?.path = path.value
            }
            if line.isDrop, let id = VersionID(line.id) { drops[id] = (line.holder, line.size) }
        }
        guard let entry else { return nil }
        guard let drop = drops[id] else { return VersionLocation(entry: entry, holder: id, end: nil) }
        guard var holder = drop.holder else { return nil }
        // Each pass of the loop uses a later ID than the pass before, so the loop ends.
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

    /// Calls `body` for each line of the log, and after them for each pending line. Returns the number of lines that could not
    /// be decoded.
    ///
    /// Lines that are appended while the log is read are left out. The lock is not held during that time, because the log can
    /// be long.
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

    /// The log at the start of a reading. It can be read to its end even if another file replaces the log.
    private struct LogSnapshot: ~Copyable, Sendable {
        let log: OwnedDescriptor
        let size: Int
        let pendingLines: [LogLine]
    }
}
