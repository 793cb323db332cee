// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The directories and files of a store.
///
///     .truce/               0755, the daemon's
///         README            what this is, for those who find it; for everybody, as the next two
///         .gitignore        so that git leaves all of it alone
///         CACHEDIR.TAG      so that tar(1) and backups can leave it out
///         store/            0700
///             version       says that this is ours, and of which form
///             kept.log      one line for each file kept or dropped
///             kept/ID       the files
///             kept/ID.copying   one that is not complete
///
/// In the store of an earlier release, what is in `store` lies in `.truce` itself, and is moved (D194).
package struct StoreLayout: ~Copyable {
    static let home = ".truce"
    private static let inner = "store"
    private static let marker = "version"
    private static let newMarker = "version.new"
    static let log = "kept.log"
    static let newLog = "kept.log.new"
    private static let kept = "kept"
    private static let markerText = Array("truce store 1\n".utf8)

    /// Takes the exclusive lock of a file; false if another process has it.
    package typealias LockTaking = (borrowing OwnedDescriptor) throws(Errno) -> Bool

    /// That which the log is in.
    let home: StoreDirectory
    let kept: StoreDirectory
    let log: OwnedDescriptor
    let isReadOnly: Bool
    /// Whether this opening has made it.
    let isNew: Bool

    /// Opens the store in the root of a source, and makes it if there is none; or leaves none.
    static func open(
        in root: borrowing OwnedDescriptor, takingLockBy takeLock: LockTaking, log: (String) -> Void
    ) throws(StoreError) -> StoreLayout {
        var isNew = false
        do throws(StoreError) {
            return try open(in: root, isNew: &isNew, takeLock, log)
        } catch {
            if isNew { remove(from: root, log: log) }
            throw error
        }
    }

    /// Takes a store away in which nothing is kept.
    static func remove(from root: borrowing OwnedDescriptor, log: (String) -> Void) {
        do throws(Errno) {
            let home = try StoreDirectory.open(Self.home, in: root)
            let store = try home.subdirectory(inner)
            // The directory first, because it stays if anything is in it.
            try remove(kept, from: store, isDirectory: true)
            for name in [Self.log, newLog, marker, newMarker] { try remove(name, from: store) }
            try remove(inner, from: home, isDirectory: true)
            for notice in NoticeFile.all {
                for name in [notice.name, notice.newName] { try remove(name, from: home) }
            }
            try StoreDirectory.open(".", in: root).remove(Self.home, isDirectory: true)
        } catch {
            log("the store of kept contents could not be taken away: \(error)")
        }
    }

    /// How far its making came, who knows.
    private static func remove(
        _ name: String, from directory: borrowing StoreDirectory, isDirectory: Bool = false
    ) throws(Errno) {
        do throws(Errno) {
            try directory.remove(name, isDirectory: isDirectory)
        } catch {
            guard error == .noEntry else { throw error }
        }
    }

    private static func open(
        in root: borrowing OwnedDescriptor, isNew: inout Bool, _ takeLock: LockTaking,
        _ report: (String) -> Void
    ) throws(StoreError) -> StoreLayout {
        let home = try openOrMakeHome(in: root, isNew: &isNew)
        try joinLogs(of: home, takeLock)
        let names = try withStoreErrors { () throws(Errno) in try home.names() }
        if names.contains(marker) || names.contains(newMarker) {
            return try openEarlier(home, names, takeLock, report)
        }
        let store = try openStore(in: home, names)
        try checkMarker(store)
        var isReadOnly = false
        let log = try openLog(in: store, mayMake: true, isReadOnly: &isReadOnly, takeLock)
        let place = try subdirectory(".", of: store)
        return try furnished(home, store, place, log, isReadOnly: isReadOnly, isNew: isNew, report)
    }

    /// `place` is what `kept` is in, which is `store` but for a store that is not moved yet.
    private static func furnished(
        _ home: borrowing StoreDirectory, _ store: consuming StoreDirectory,
        _ place: consuming StoreDirectory, _ log: consuming OwnedDescriptor, isReadOnly: Bool, isNew: Bool,
        _ report: (String) -> Void
    ) throws(StoreError) -> StoreLayout {
        let kept = try subdirectory(Self.kept, of: place)
        if !isReadOnly {
            try withStoreErrors { () throws(Errno) in
                try remove(newLog, from: store)
                try store.synchronize()
            }
            furnish(home, report)
        }
        return StoreLayout(home: store, kept: kept, log: log, isReadOnly: isReadOnly, isNew: isNew)
    }

    /// The directory with the marker.
    private static func openStore(
        in home: borrowing StoreDirectory, _ names: [String]
    ) throws(StoreError) -> StoreDirectory {
        let isWhole = try hasMarker(home, names)
        try check(home, hasMode: isWhole ? [0o700, 0o755] : [0o700])
        if !isWhole { try checkBeginning(of: home, names) }
        let store = try subdirectory(inner, of: home)
        try check(store, hasMode: [0o700])
        return store
    }

    /// A store of an earlier release has everything in `.truce` itself. It is moved, the marker last: where that is, a kill may have left
    /// some in either directory. No other daemon moves anything, for this one has the lock of the log by then. What cannot be moved
    /// now, because the disk is full, is used where it is; the next opening tries again.
    private static func openEarlier(
        _ home: borrowing StoreDirectory, _ names: [String], _ takeLock: LockTaking,
        _ report: (String) -> Void
    ) throws(StoreError) -> StoreLayout {
        try check(home, hasMode: names.contains(marker) ? [0o700, 0o755] : [0o700])
        try checkMarker(home)
        var isReadOnly = false
        let log = try openLog(
            in: place(of: Self.log, in: home), mayMake: !names.contains(Self.log), isReadOnly: &isReadOnly,
            takeLock)
        if !isReadOnly {
            do throws(StoreError) {
                try move(from: home)
            } catch {
                if case .foreign = error { throw error }
                report("what is kept stays where an earlier release has put it (\(error))")
            }
        }
        return try furnished(
            home, place(of: Self.log, in: home), place(of: kept, in: home), log, isReadOnly: isReadOnly,
            isNew: false, report)
    }

    /// The directory that has something of the store of an earlier release.
    private static func place(
        of name: String, in home: borrowing StoreDirectory
    ) throws(StoreError) -> StoreDirectory {
        let names = try withStoreErrors { () throws(Errno) in try home.names() }
        let isMoved = !names.contains(name) && names.contains(inner)
        return try subdirectory(isMoved ? inner : ".", of: home)
    }

    /// Earlier releases refuse a directory with another mode. So it has that before anything is moved, and as long as anything is.
    private static func move(from home: borrowing StoreDirectory) throws(StoreError) {
        let store = try subdirectory(inner, of: home)
        try check(store, hasMode: [0o700])
        try withStoreErrors { () throws(Errno) in
            for name in [newLog, newMarker] { try remove(name, from: home) }
            let mode = try home.status().mode & 0o777
            try home.changeMode(to: 0o755)
            try home.synchronize()
            let names = try home.names()
            do throws(Errno) {
                try move(names, from: home, to: store)
            } catch {
                let moved = try store.names()
                if moved.isEmpty { try home.changeMode(to: mode) }
                throw error
            }
        }
    }

    private static func move(
        _ names: [String], from home: borrowing StoreDirectory, to store: borrowing StoreDirectory
    ) throws(Errno) {
        if names.contains(kept) { try moveKept(from: home, to: store) }
        if names.contains(log) { try home.move(log, to: store) }
        try store.synchronize()
        try home.synchronize()
        try home.move(marker, to: store)
        try store.synchronize()
    }

    /// Both may have files: an earlier release has kept some after the directory was moved. No two have the same ID.
    private static func moveKept(
        from home: borrowing StoreDirectory, to store: borrowing StoreDirectory
    ) throws(Errno) {
        guard try store.names().contains(kept) else { return try home.move(kept, to: store) }
        let former = try home.subdirectory(kept)
        let later = try store.subdirectory(kept)
        for name in try former.names() { try former.move(name, to: later) }
        try later.synchronize()
        try home.remove(kept, isDirectory: true)
    }

    /// Of two logs one is made: the one that has been moved goes on with what an earlier release has written since to one of its own, or a
    /// daemon that looked for the log when it was being moved.
    private static func joinLogs(
        of home: borrowing StoreDirectory, _ takeLock: LockTaking
    ) throws(StoreError) {
        let names = try withStoreErrors { () throws(Errno) in try home.names() }
        guard names.contains(log), names.contains(inner) else { return }
        let isWhole = try hasMarker(home, names)
        guard isWhole || names.contains(marker) else { return }
        try check(home, hasMode: [0o700, 0o755])
        let store = try subdirectory(inner, of: home)
        try check(store, hasMode: [0o700])
        guard try withStoreErrors({ () throws(Errno) in try store.names().contains(log) }) else { return }
        var isReadOnly = false
        let former = try openLog(in: home, mayMake: false, isReadOnly: &isReadOnly, takeLock)
        let later = try openLog(in: store, mayMake: false, isReadOnly: &isReadOnly, takeLock)
        guard !isReadOnly else { return }
        do throws(Errno) {
            let text = try former.read(at: 0, count: Int(former.status().size))
            var joined = try VersionLog(later) { file throws(Errno) in try file.synchronize() }
            if !text.isEmpty { try joined.append(text) }
            try home.remove(log)
            try home.synchronize()
        } catch {
            throw StoreError(error)
        }
    }

    private static func subdirectory(
        _ name: String, of directory: borrowing StoreDirectory
    ) throws(StoreError) -> StoreDirectory {
        do throws(Errno) { return try directory.subdirectory(name) } catch { throw StoreError(error) }
    }

    private static func hasMarker(
        _ home: borrowing StoreDirectory, _ names: [String]
    ) throws(StoreError) -> Bool {
        guard names.contains(inner) else { return false }
        return try withStoreErrors { () throws(Errno) in
            do throws(Errno) {
                return try StoreDirectory.subdirectory(inner, of: home).names().contains(marker)
            } catch {
                // Something else is called so.
                guard [.notADirectory, .linkLoop].contains(error) else { throw error }
                return false
            }
        }
    }

    /// A directory without a marker may be one that a daemon was killed in while it made it: nothing else is in it then.
    private static func checkBeginning(
        of home: borrowing StoreDirectory, _ names: [String]
    ) throws(StoreError) {
        let known = Set(NoticeFile.all.flatMap { [$0.name, $0.newName] } + [inner])
        guard names.allSatisfy(known.contains) else { throw .foreign("it has no file \(inner)/\(marker)") }
        for notice in NoticeFile.all where names.contains(notice.name) {
            let text = try withStoreErrors { () throws(Errno) in
                try home.open(notice.name).read(at: 0, count: notice.text.utf8.count + 1)
            }
            guard text == Array(notice.text.utf8) else {
                throw .foreign("its file \(notice.name) is of another kind")
            }
        }
    }

    /// Makes what is for everybody, and lets everybody in to that. Without it programs of other users complain, no more.
    private static func furnish(_ home: borrowing StoreDirectory, _ report: (String) -> Void) {
        do throws(Errno) {
            let names = try home.names()
            // An earlier release's, which could not be moved.
            guard !names.contains(marker) else { return }
            for notice in NoticeFile.all where !names.contains(notice.name) {
                try remove(notice.newName, from: home)
                let file = try home.create(notice.newName)
                try file.writeAll(Array(notice.text.utf8))
                try file.changeMode(to: 0o644)
                try file.synchronize()
                try home.rename(notice.newName, to: notice.name)
            }
            if try home.status().mode & 0o777 != 0o755 { try home.changeMode(to: 0o755) }
            try home.synchronize()
        } catch {
            report("the notices in \(Self.home) could not be made (\(error))")
        }
    }

    /// The log, locked, and open for reading only; see `VersionLog.append`.
    private static func openLog(
        in home: borrowing StoreDirectory, mayMake: Bool, isReadOnly: inout Bool, _ takeLock: LockTaking
    ) throws(StoreError) -> OwnedDescriptor {
        isReadOnly = try !canWriteLog(in: home, mayMake: mayMake)
        let log = try withStoreErrors { () throws(Errno) in try home.open(Self.log) }
        do throws(Errno) {
            guard try takeLock(log) else { throw Errno.busy }
            // Its last holder may have taken the store away again, or moved it.
            let there = try home.path(of: Self.log).status()
            guard try log.status().inode == there.inode else { throw Errno.busy }
            return log
        } catch .noEntry {
            throw .inUse
        } catch .busy {
            throw .inUse
        } catch .badDescriptor {
            // NFS locks only what is open for writing.
            let writable = try withStoreErrors { () throws(Errno) in try home.openAppending(Self.log) }
            guard try withStoreErrors({ () throws(Errno) in try takeLock(writable) }) else { throw .inUse }
            return writable
        } catch {
            throw StoreError(error)
        }
    }

    /// Whether the log can be written. It is made if it `mayMake` one.
    private static func canWriteLog(
        in home: borrowing StoreDirectory, mayMake: Bool
    ) throws(StoreError) -> Bool {
        do throws(Errno) {
            _ = try home.openAppending(Self.log, mayMake: mayMake)
            return true
        } catch .noEntry {
            // Another daemon has moved it just now.
            throw .inUse
        } catch {
            guard error == .readOnly else { throw StoreError(error) }
            return false
        }
    }

    private static func openOrMakeHome(
        in root: borrowing OwnedDescriptor, isNew: inout Bool
    ) throws(StoreError) -> StoreDirectory {
        do throws(StoreError) {
            return try openHome(in: root)
        } catch .io(.noEntry) {
            isNew = try withStoreErrors { () throws(Errno) in try StoreDirectory.make(home, in: root) }
            // The root may be an `O_PATH` descriptor, which cannot be synchronised itself.
            try withStoreErrors { () throws(Errno) in try StoreDirectory.open(".", in: root).synchronize() }
            return try openHome(in: root)
        }
    }

    private static func openHome(in root: borrowing OwnedDescriptor) throws(StoreError) -> StoreDirectory {
        do throws(Errno) {
            return try StoreDirectory.open(home, in: root)
        } catch {
            switch error {
            case .notADirectory, .linkLoop: throw .foreign("it is not a directory")
            case .noAccess: throw .foreign("it belongs to somebody else")
            default: throw StoreError(error)
            }
        }
    }

    private static func check(
        _ directory: borrowing StoreDirectory, hasMode modes: [UInt32]
    ) throws(StoreError) {
        let status = try withStoreErrors { () throws(Errno) in try directory.status() }
        guard status.user == OwnProcess.user else {
            throw .foreign("it belongs to user \(status.user), not to user \(OwnProcess.user)")
        }
        guard modes.contains(status.mode & 0o777) else {
            throw .foreign("its mode is \(String(status.mode & 0o777, radix: 8)), not 700")
        }
    }

    /// A directory with our marker is ours.
    ///
    /// So is one with nothing in it: a daemon that was killed
    /// before it could write the marker leaves that.
    private static func checkMarker(_ home: borrowing StoreDirectory) throws(StoreError) {
        let names = try withStoreErrors { () throws(Errno) in try home.names() }
        if names.contains(marker) {
            let text = try withStoreErrors { () throws(Errno) in
                try home.open(marker).read(at: 0, count: markerText.count + 1)
            }
            guard text == markerText else { throw .foreign("its file \(marker) is of another kind") }
        } else {
            guard names.isEmpty || names == [newMarker] else {
                throw .foreign("it has no file \(marker)")
            }
            try withStoreErrors { () throws(Errno) in try writeMarker(home, replacing: names) }
        }
    }

    private static func writeMarker(
        _ home: borrowing StoreDirectory, replacing former: [String]
    ) throws(Errno) {
        for name in former { try home.remove(name) }
        let file = try home.create(newMarker)
        try file.writeAll(markerText)
        try file.synchronize()
        try home.rename(newMarker, to: marker)
        try home.synchronize()
    }
}

/// A file for those who find the directory.
private struct NoticeFile {
    let name: String
    let text: String
    var newName: String { name + ".new" }

    static let all = [
        NoticeFile(name: ".gitignore", text: "*\n"),
        NoticeFile(
            name: "CACHEDIR.TAG",
            text: """
                Signature: 8a477f597d28d172789f06886806bc55
                # Truce keeps contents here that other programs went over; see README.
                # For the form of this file see https://bford.info/cachedir/

                """),
        NoticeFile(
            name: "README",
            text: """
                Truce keeps contents here that a program went over while another program used the file.

                While this folder's parent is mounted by truce:
                    truce kept PATH                    lists what was kept of a file or folder
                    truce kept PATH --restore ID -     writes one version to standard output

                What is kept goes by itself: when it is 30 days old, or takes too much room. What is in
                "store" is for the daemon only. While nothing is mounted here, this folder may be removed
                as a whole, with all that is kept.

                """),
    ]
}
