// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The rewriting of the log, which leaves out lines about versions that are gone. D193 limits the number of versions, but
/// without rewriting, the log would still grow for ever.
extension VersionFiles {
    /// The versions for which the log has a `kept` line or a `dropped` line.
    private struct Survey {
        var kept: Set<VersionID> = []
        /// The dropped versions, each with the later version that holds its contents, or nil.
        var drops: [VersionID: VersionID?] = [:]
        /// The versions with `kept` lines, also the dropped ones, with their present paths.
        var index = VersionIndex()
        /// The paths in the `kept` lines.
        var paths: [VersionID: [UInt8]] = [:]

        /// Whether the contents of a version can still be read, from its own file or from the file of a later version.
        func isReadable(_ id: VersionID) -> Bool {
            var id = id
            while let drop = drops[id] {
                // Each pass of the loop uses a later ID than the pass before, so the loop ends.
                guard let holder = drop, holder > id else { return false }
                id = holder
            }
            return kept.contains(id)
        }
    }

    /// Rewrites the log if it is long, and at least twice as long as after its last rewriting.
    func compactLogIfLong() {
        withState { state in
            let least = max(leastCompactedLines, 2 * state.linesCompacted, 4 * state.ledger.count)
            var size = 0
            do throws(Errno) {
                size = try state.log.size()
                // A log that was not rewritten since the opening is possibly long because it has many versions. A rewriting would
                // then be in vain, and would double the time of each opening.
                let leastBytes =
                    state.bytesCompacted > 0
                    ? 2 * state.bytesCompacted : size / max(state.lines, 1) * 4 * state.ledger.count
                guard state.lines >= least || size >= max(leastCompactedBytes, leastBytes)
                else {
                    return
                }
                try compactLog(&state)
            } catch {
                // After a failure, the old log stays in use. The next attempt comes when the log has twice as many lines or
                // bytes as now.
                (state.linesCompacted, state.bytesCompacted) = (state.lines, size)
                report("kept.log could not be rewritten (\(error))")
            }
        }
    }

    private func compactLog(_ state: inout State) throws(Errno) {
        let old = try state.log.reader()
        let size = try state.log.size()
        var survey = Survey()
        _ = try VersionLog.forEach(in: old, upTo: size) { line in
            guard let id = VersionID(line.id) else { return }
            if line.event == .kept { survey.kept.insert(id) }
            if line.isDrop { survey.drops[id] = .some(line.holder) } else { survey.index.replay(line) }
            if let entry = line.entry { survey.paths[id] = entry.path }
        }
        var (text, lines): ([UInt8], Int) = ([], 0)
        try VersionLog.forEachText(in: old, upTo: size) { bytes in
            guard let line = LogLine.read(bytes), let id = VersionID(line.id), line.event != .moved,
                survey.isReadable(id)
            else { return }
            text += bytes + [UInt8(ascii: "\n")]
            lines += 1
        }
        // In the new log, each version has at most one line of a move, with its present path.
        for id in survey.paths.keys.sorted() where survey.isReadable(id) {
            guard let path = survey.index[id]?.path, path != survey.paths[id] else { continue }
            text += LogLine(moving: id, to: path, at: clock()).bytes()
            lines += 1
        }
        state.log = try replaceLog(by: text)
        (state.lines, state.linesCompacted, state.bytesCompacted) = (lines, lines, text.count)
        // The new file is the log from now on. If the directory cannot be brought to the disk, a power cut can undo the rename.
        do throws(Errno) {
            try home.synchronize(by: synchronize)
        } catch {
            state.logName = .pending
            report("kept.log was rewritten, and may not outlive a power cut (\(error))")
        }
    }

    /// Replaces the log by a new file that contains `text`. The new file is locked under another name, so no other daemon can
    /// lock it before this daemon.
    private func replaceLog(by text: [UInt8]) throws(Errno) -> VersionLog {
        let name = StoreLayout.newLog
        do throws(Errno) {
            let file = try home.create(name)
            try file.writeAll(text)
            try synchronize(file)
            let log = try home.open(name)
            guard try log.tryLock() else { throw Errno.busy }
            let renewed = try VersionLog(log, synchronisingBy: synchronize)
            try home.replace(StoreLayout.log, by: name)
            return renewed
        } catch {
            takeBack(name)
            throw error
        }
    }

    private func takeBack(_ name: String) {
        do throws(Errno) {
            try home.remove(name)
        } catch {
            if error != .noEntry { report("\(name) could not be removed after a failure (\(error))") }
        }
    }
}
