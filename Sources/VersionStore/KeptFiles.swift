// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The store that is there: files in `kept/` and what the log says about them.
///
/// The order of steps is what survives a kill. Keeping: the contents first, under a name that says so
/// while they are incomplete; then the line. Dropping: the line first, then the file. So a file without
/// a line was being kept, a file with a `dropped` line was being dropped, and `recover` finishes both.
///
/// So a link whose line has no room is kept all the same. Its line is owed: it counts as written, and is when another one was.
final class KeptFiles: Sendable {
    struct State: ~Copyable, Sendable {
        var log: KeptLog
        var lastID: KeptID?
        /// Of files that are there.
        var owed: [LogLine] = []
        var grown = GrownFiles()
    }

    /// What one attempt to put contents into the store needs to know.
    struct Contents {
        let status: FileStatus
        let rights: FileRights
    }

    /// Ends the name of a copy that is being made.
    static let incomplete = ".copying"
    /// A disk that stays full must not fill the memory. A file without a line is adopted, but where it was is lost.
    private static let mostOwed = 4096

    let directory: StoreDirectory
    /// The log, for those who read it.
    let log: OwnedDescriptor
    let state: Mutex<State>
    let isReadOnly: Bool
    /// Whether the store was made when it was opened.
    let isNew: Bool
    let clock: @Sendable () -> Int64
    let report: @Sendable (String) -> Void

    init(
        _ layout: consuming StoreLayout, clock: @escaping @Sendable () -> Int64,
        report: @escaping @Sendable (String) -> Void
    ) throws(StoreError) {
        (isReadOnly, isNew) = (layout.isReadOnly, layout.isNew)
        directory = layout.kept
        let file = layout.log
        do throws(Errno) {
            log = try OwnedDescriptor.duplicating(file.rawValue)
            state = Mutex(State(log: try KeptLog(file), lastID: nil))
        } catch {
            throw StoreError(error)
        }
        self.clock = clock
        self.report = report
    }

    /// What is done once the file has another name stands: the step that takes its own is taken whatever is thrown here, and the
    /// link may be all that leads to the contents.
    func link(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: KeepCause, closed: [FileRights]
    ) throws(StoreError) -> KeptID {
        let contents = try examine(file)
        let (id, time) = nextID()
        try storing { () throws(Errno) in try directory.link(file, as: id.description) }
        do throws(Errno) {
            try directory.synchronise()
        } catch {
            report("kept/\(id) may not outlive a power cut (\(error))")
        }
        appendOrOwe(
            LogLine(
                KeptEntry(
                    id, contents, path: path, cause: cause, closed: closed, method: .link, at: time)))
        return id
    }

    func copy(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: KeepCause, closed: [FileRights], limit: Int
    ) throws(StoreError) -> KeptID {
        try copied(file, path: path, cause: cause, closed: closed, limit: limit).id
    }

    func copied(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: KeepCause, closed: [FileRights], limit: Int
    ) throws(StoreError) -> KeptEntry {
        try finish(beginCopying(file, limit: limit), path: path, cause: cause, closed: closed)
    }

    /// Copies into a name that says "incomplete" until every byte is on the disk.
    func beginCopying(
        _ file: borrowing OwnedDescriptor, limit: Int
    ) throws(StoreError) -> UnfinishedCopy {
        let contents = try examine(file)
        let (id, time) = nextID()
        let source = try storing { () throws(Errno) in try file.reopenedForReading() }
        let target = try storing { () throws(Errno) in
            try directory.create(id.description + Self.incomplete)
        }
        do throws(StoreError) {
            let method = try Self.fill(target, from: source, limit: limit)
            return UnfinishedCopy(id: id, time: time, contents: contents, method: method, file: target)
        } catch {
            undo(id.description + Self.incomplete)
            throw error
        }
    }

    func finish(
        _ copy: consuming UnfinishedCopy, path: [UInt8], cause: KeepCause, closed: [FileRights]
    ) throws(StoreError) -> KeptEntry {
        let incomplete = copy.id.description + Self.incomplete
        do throws(Errno) {
            try copy.file.synchronise()
            try directory.rename(incomplete, to: copy.id.description)
        } catch {
            undo(incomplete)
            throw StoreError(error)
        }
        let entry = KeptEntry(
            copy.id, copy.contents, path: path, cause: cause, closed: closed, method: copy.method,
            at: copy.time)
        try record(entry)
        return entry
    }

    /// Copies without waiting for the disk. Who is killed now has no line for it, and the next opening adopts it.
    func copyInHurry(_ file: borrowing OwnedDescriptor, limit: Int) throws(StoreError) -> UnfinishedCopy {
        let copy = try beginCopying(file, limit: limit)
        let incomplete = copy.id.description + Self.incomplete
        do throws(Errno) {
            try directory.rename(incomplete, to: copy.id.description)
        } catch {
            undo(incomplete)
            throw StoreError(error)
        }
        return copy
    }

    /// The step that this was copied for is taken, so it stays whatever becomes of its line, as a link does.
    func record(
        _ copy: consuming UnfinishedCopy, path: [UInt8], cause: KeepCause, closed: [FileRights]
    ) -> KeptID {
        do throws(Errno) {
            try copy.file.synchronise()
            try directory.synchronise()
        } catch {
            report("kept/\(copy.id) may not outlive a power cut (\(error))")
        }
        appendOrOwe(
            LogLine(
                KeptEntry(
                    copy.id, copy.contents, path: path, cause: cause, closed: closed, method: copy.method,
                    at: copy.time)))
        return copy.id
    }

    /// Puts a copy in the place of a link. What was written to the file until now is in it.
    func detach(_ id: KeptID, limit: Int) throws(StoreError) {
        guard !isReadOnly else { throw .readOnly }
        let source = try open(id)
        let incomplete = id.description + Self.incomplete
        let target = try storing { () throws(Errno) in try directory.create(incomplete) }
        do throws(StoreError) {
            _ = try Self.fill(target, from: source, limit: limit)
            takeRights(target, of: source, as: id)
            try storing { () throws(Errno) in
                try target.synchronise()
                try directory.replace(id.description, by: incomplete)
            }
        } catch {
            undo(incomplete)
            throw error
        }
        try storing { () throws(Errno) in try directory.synchronise() }
    }

    /// A copy in the place of a link is closed to those to whom the file is closed.
    private func takeRights(
        _ copy: borrowing OwnedDescriptor, of file: borrowing OwnedDescriptor, as id: KeptID
    ) {
        do throws(Errno) {
            let (status, list) = (try file.status(), try file.accessControlList())
            try copy.changeOwner(user: status.user, group: status.group)
            try copy.changeMode(to: status.mode & 0o666)
            guard let list else { return }
            try copy.setAccessControlList(list)
        } catch {
            // Its mode is 0600 then.
            report("kept/\(id) is open to its owner only (\(error))")
        }
    }

    func discard(_ copy: consuming UnfinishedCopy) { undo(copy.id.description) }

    func drop(_ id: KeptID, reason: String) throws(StoreError) {
        try drop(id, LogLine(dropping: id, reason: reason, at: clock()))
    }

    func drop(_ id: KeptID, _ line: LogLine) throws(StoreError) {
        guard !isReadOnly else { throw .readOnly }
        // What the log was never told it need not be told the end of; there is no room for that either.
        let isOwed = state.withLock { state in state.owed.contains { $0.id == id.description } }
        if !isOwed { try append(line) }
        try remove(id.description)
        // It may have been written meanwhile: then the next opening finds a line without a file.
        if isOwed { forgetOwed(id) }
    }
}

extension KeptFiles {
    private func examine(_ file: borrowing OwnedDescriptor) throws(StoreError) -> Contents {
        guard !isReadOnly else { throw .readOnly }
        let status = try storing { () throws(Errno) in try file.status() }
        guard status.isRegularFile else { throw .notAFile }
        let list = try storing { () throws(Errno) in try file.accessControlList() }
        return Contents(status: status, rights: FileRights(status, accessControlList: list))
    }

    private func nextID() -> (KeptID, time: Int64) {
        let time = clock()
        return state.withLock { state in
            let id = KeptID.next(after: state.lastID, at: time)
            state.lastID = id
            return (id, time)
        }
    }

    private static func fill(
        _ target: borrowing OwnedDescriptor, from source: borrowing OwnedDescriptor, limit: Int
    ) throws(StoreError) -> KeepMethod {
        if try storing({ () throws(Errno) in try source.reflink(to: target) }) { return .reflink }
        let size = try storing { () throws(Errno) in try source.status().size }
        guard size <= limit else { throw .tooLarge(limit: limit) }
        // One byte more than allowed tells a file that grew meanwhile from one that just fits.
        let copied = try storing { () throws(Errno) in
            try source.copyContents(to: target, limit: limit + 1)
        }
        guard copied <= limit else { throw .tooLarge(limit: limit) }
        return .copy
    }

    /// The copied contents are there; now their name and their line become durable, in this order.
    private func record(_ entry: KeptEntry) throws(StoreError) {
        do throws(StoreError) {
            try storing { () throws(Errno) in try directory.synchronise() }
            try append(LogLine(entry))
        } catch {
            undo(entry.id.description)
            throw error
        }
    }

    func append(_ line: LogLine) throws(StoreError) {
        let bytes = line.bytes()
        try state.withLock { state throws(StoreError) in
            do throws(Errno) {
                try state.log.append(bytes)
                state.settle()
            } catch {
                throw StoreError(error)
            }
        }
    }

    /// For the line of a file that is there and stays.
    func appendOrOwe(_ line: LogLine) {
        do throws(StoreError) {
            try append(line)
        } catch {
            let isOwed: Bool = state.withLock { state in
                guard state.owed.count < Self.mostOwed else { return false }
                state.owed.append(line)
                return true
            }
            report("kept/\(line.id) has no line in kept.log\(isOwed ? " yet" : "") (\(error))")
        }
    }

    func settle() { state.withLock { $0.settle() } }

    private func forgetOwed(_ id: KeptID) {
        state.withLock { state in state.owed.removeAll { $0.id == id.description } }
    }

    func remove(_ name: String) throws(StoreError) {
        try storing { () throws(Errno) in
            try directory.remove(name)
            try directory.synchronise()
        }
    }

    /// Takes back what failed half-way, or is not wanted.
    ///
    /// What cannot be taken back, the next opening finds.
    private func undo(_ name: String) {
        do throws(Errno) {
            try directory.remove(name)
        } catch {
            report("kept/\(name) could not be removed after a failure (error \(error.rawValue))")
        }
    }
}

extension KeptFiles.State {
    /// Writes what is owed, if that is possible now.
    mutating func settle() {
        while let line = owed.first {
            // It was reported of each, and is tried again.
            do throws(Errno) { try log.append(line.bytes()) } catch { return }
            owed.removeFirst()
        }
    }
}

extension KeptEntry {
    fileprivate init(
        _ id: KeptID, _ contents: KeptFiles.Contents, path: [UInt8], cause: KeepCause, closed: [FileRights],
        method: KeepMethod, at time: Int64
    ) {
        self.init(
            id: id, path: path, cause: cause, time: time, rights: contents.rights, method: method,
            device: contents.status.device, inode: contents.status.inode, size: Int(contents.status.size),
            closed: closed)
    }
}

/// Contents that were copied, but may not be on the disk yet.
package struct UnfinishedCopy: ~Copyable, Sendable {
    let id: KeptID
    let time: Int64
    let contents: KeptFiles.Contents
    let method: KeepMethod
    let file: OwnedDescriptor
}
