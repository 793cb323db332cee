// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// Rewriting the log, which would otherwise grow for ever while the versions have a limit (D193).
extension VersionFiles {
    /// The preserved and dropped versions of the log.
    private struct Survey {
        var kept: Set<VersionID> = []
        /// Dropped versions, with the version that holds their contents.
        var drops: [VersionID: VersionID?] = [:]

        /// Whether the contents of a version can still be read.
        func isReadable(_ id: VersionID) -> Bool {
            var id = id
            while let drop = drops[id] {
                // Each holder has a later ID, so the loop ends.
                guard let holder = drop, holder > id else { return false }
                id = holder
            }
            return kept.contains(id)
        }
    }

    /// Rewrites the log if few of its lines are about readable versions.
    func compactLogIfLong() {
        withState { state in
            let least = max(leastCompactedLines, 2 * state.linesCompacted, 4 * state.ledger.count)
            var size = 0
            do throws(Errno) {
                size = try state.log.size()
                guard state.lines >= least || size >= max(leastCompactedBytes, 2 * state.bytesCompacted)
                else {
                    return
                }
                try compactLog(&state)
            } catch {
                // The log is as good as before. The next attempt comes when it is twice as long.
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
            if line.isDrop { survey.drops[id] = .some(line.holder) }
        }
        var (text, lines): ([UInt8], Int) = ([], 0)
        try VersionLog.forEachText(in: old, upTo: size) { bytes in
            guard let line = LogLine.read(bytes), let id = VersionID(line.id), survey.isReadable(id) else {
                return
            }
            text += bytes + [UInt8(ascii: "\n")]
            lines += 1
        }
        state.log = try replaceLog(by: text)
        (state.lines, state.linesCompacted, state.bytesCompacted) = (lines, lines, text.count)
        // The new file is the log now, even if a power cut may undo the rename.
        do throws(Errno) {
            try home.synchronize(by: synchronize)
        } catch {
            state.logName = .pending
            report("kept.log was rewritten, and may not outlive a power cut (\(error))")
        }
    }

    /// Replaces the log by a file with `text`. The new file is locked before a program can open it as the log.
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
