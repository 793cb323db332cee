// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The directories and files of a store.
///
///     .truce/               0755, the daemon's
///         README            explains the directory; readable by every user.
///         .gitignore        so that git ignores all of it; readable by every user.
///         CACHEDIR.TAG      so that tar(1) and backups can leave it out; readable by every user.
///         store/            0700
///             version       the marker of a store of Truce, with its form.
///             kept.log      one line for each file preserved or dropped.
///             kept/ID       the files
///             kept/ID.copying   a file that is not complete.
///             history/      the log of what programs did with documents (room History).
///             merging-DEVICE-INODE   a merge that is being written into a file (``MergeRecord``).
///
/// A store of an earlier release has the contents of `store` in `.truce` itself. The daemon moves them into `store` (D194).
package struct StoreLayout: ~Copyable {
    static let home = ".truce"
    private static let inner = "store"
    private static let marker = "version"
    private static let newMarker = "version.new"
    static let log = "kept.log"
    static let newLog = "kept.log.new"
    private static let kept = "kept"
    static let history = "history"
    private static let markerText = Array("truce store 1\n".utf8)

    /// Takes the exclusive lock of a file. Returns false if another process has the lock.
    package typealias LockTaking = (borrowing OwnedDescriptor) throws(Errno) -> Bool

    /// The directory `.truce/store`. For a store of an earlier release that is not moved yet, the directory `.truce`.
    let home: StoreDirectory
    let kept: StoreDirectory
    let log: OwnedDescriptor
    let isReadOnly: Bool
    /// Whether this opening has created the store.
    let isNew: Bool

    /// Opens the store in the root of a source, and creates the store if it is missing. If this fails after the creation, the
    /// new store is removed again.
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

    /// Removes a store that has no versions.
    static func remove(from root: borrowing OwnedDescriptor, log: (String) -> Void) {
        do throws(Errno) {
            let home = try StoreDirectory.open(Self.home, in: root)
            let store = try home.subdirectory(inner)
            // `kept` is removed before the other files. If `kept` contains files, its removal fails, and the rest of the store
            // stays.
            for name in [kept, history] { try remove(name, from: store, isDirectory: true) }
            for name in [Self.log, newLog, marker, newMarker] { try remove(name, from: store) }
            try remove(inner, from: home, isDirectory: true)
            for notice in NoticeFile.all {
                for name in [notice.name, notice.newName] { try remove(name, from: home) }
            }
            try StoreDirectory.open(".", in: root).remove(Self.home, isDirectory: true)
        } catch {
            log("the store of versions could not be removed: \(error)")
        }
    }

    /// Removes a file or directory from a directory. Does nothing if the directory has no such name.
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

    /// Opens the directory `kept`, creates the files for users in `.truce`, and returns the layout. `place` is the directory
    /// that contains `kept`. This is `store`, or `.truce` if a store of an earlier release is not moved yet.
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

    /// Opens the directory `store` of `.truce`, and checks `.truce` before that. The marker is in `store`, or is written later.
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

    /// Opens a store of an earlier release, which has all its files in `.truce` itself, and moves them into `store`.
    ///
    /// The marker is moved last. As long as the marker is in `.truce`, the other files can be in `.truce` or in `store`,
    /// because a kill can interrupt the move. No other daemon moves files at the same time, because this daemon holds the lock
    /// of the log. If a move fails, for example on a full disk, the files stay in use where they are. The next opening of the
    /// store tries the move again.
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
                report("the versions stay where an earlier release has put them (\(error))")
            }
        }
        return try furnished(
            home, place(of: Self.log, in: home), place(of: kept, in: home), log, isReadOnly: isReadOnly,
            isNew: false, report)
    }

    /// Returns the directory that now contains `name`, in a store of an earlier release with files that are possibly moved
    /// already.
    private static func place(
        of name: String, in home: borrowing StoreDirectory
    ) throws(StoreError) -> StoreDirectory {
        let names = try withStoreErrors { () throws(Errno) in try home.names() }
        let isMoved = !names.contains(name) && names.contains(inner)
        return try subdirectory(isMoved ? inner : ".", of: home)
    }

    /// Moves the files of an earlier release's store from `.truce` into `store`.
    ///
    /// An earlier release refuses a `.truce` with mode 0755. So `.truce` gets this mode before the first file is moved. An
    /// earlier release then cannot use a store that is only partly moved.
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

    /// Moves the directory `kept` into `store`.
    ///
    /// If an earlier release preserved files after a move, `.truce` and `store` each have a `kept` with files. The files are
    /// then moved one by one. No two of them have the same ID.
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

    /// If `.truce` and `store` each have a log, appends the lines of the first log to the second, and removes the first.
    ///
    /// There are two logs if an earlier release used the store after the move. A daemon that looked for the log during the
    /// move, and did not find it, can also have made one.
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
                // `store` is a file or a symbolic link, so it is not the directory of a store.
                guard [.notADirectory, .linkLoop].contains(error) else { throw error }
                return false
            }
        }
    }

    /// Checks a `.truce` without a marker. If a daemon was killed while it created the store, `.truce` contains only `store`
    /// and the files for users, such as `README`.
    private static func checkBeginning(
        of home: borrowing StoreDirectory, _ names: [String]
    ) throws(StoreError) {
        let known = Set(NoticeFile.all.flatMap { [$0.name, $0.newName] } + [inner])
        guard names.allSatisfy(known.contains) else { throw .foreign("it has no file \(inner)/\(marker)") }
        for notice in NoticeFile.all where names.contains(notice.name) {
            let longest = notice.texts.map(\.utf8.count).max() ?? 0
            let text = try withStoreErrors { () throws(Errno) in
                try home.open(notice.name).read(at: 0, count: longest + 1)
            }
            guard notice.texts.contains(where: { text == Array($0.utf8) }) else {
                throw .foreign("its file \(notice.name) is of another kind")
            }
        }
    }

    /// Creates the files for users in `.truce`, such as `README`, and lets all users enter `.truce`. After a failure the store
    /// still works, but programs of other users such as git report errors.
    private static func furnish(_ home: borrowing StoreDirectory, _ report: (String) -> Void) {
        do throws(Errno) {
            let names = try home.names()
            // A marker in `.truce` means that the store of an earlier release could not be moved.
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

    /// Opens the log for reading, and takes its lock. For each write, `VersionLog.append` opens the log again for writing.
    private static func openLog(
        in home: borrowing StoreDirectory, mayMake: Bool, isReadOnly: inout Bool, _ takeLock: LockTaking
    ) throws(StoreError) -> OwnedDescriptor {
        isReadOnly = try !canWriteLog(in: home, mayMake: mayMake)
        let log = try withStoreErrors { () throws(Errno) in try home.open(Self.log) }
        do throws(Errno) {
            guard try takeLock(log) else { throw Errno.busy }
            // Another daemon possibly held the lock until now, and removed or moved the store. In this case the opened file is
            // not the log any more.
            let there = try home.path(of: Self.log).status()
            guard try log.status().inode == there.inode else { throw Errno.busy }
            return log
        } catch .noEntry {
            throw .inUse
        } catch .busy {
            throw .inUse
        } catch .badDescriptor {
            // NFS locks a file only for a descriptor that is open for writing.
            let writable = try withStoreErrors { () throws(Errno) in try home.openAppending(Self.log) }
            guard try withStoreErrors({ () throws(Errno) in try takeLock(writable) }) else { throw .inUse }
            return writable
        } catch {
            throw StoreError(error)
        }
    }

    /// Whether the log can be written. A missing log is created if `mayMake` is true.
    private static func canWriteLog(
        in home: borrowing StoreDirectory, mayMake: Bool
    ) throws(StoreError) -> Bool {
        do throws(Errno) {
            _ = try home.openAppending(Self.log, mayMake: mayMake)
            return true
        } catch .noEntry {
            // Another daemon has moved the log just now, so that daemon uses the store.
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
            // The root can be an `O_PATH` descriptor, on which fsync(2) fails. So the root is opened for reading.
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
            case .noAccess: throw .foreign("it belongs to another user")
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

    /// Checks that a directory has the marker of a Truce store.
    ///
    /// An empty directory gets the marker and is accepted. A daemon that was killed before it wrote the marker can have left
    /// the directory empty.
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

/// A file in `.truce` that explains the directory to users or programs.
private struct NoticeFile {
    let name: String
    let text: String
    /// The text that earlier releases wrote into the file. A store of an earlier release can still have this text.
    var formerTexts: [String] = []
    var newName: String { name + ".new" }
    var texts: [String] { [text] + formerTexts }

    static let all = [
        NoticeFile(name: ".gitignore", text: "*\n"),
        NoticeFile(
            name: "CACHEDIR.TAG", text: cacheTag("Truce preserves contents of files here; see README."),
            formerTexts: [cacheTag("Truce keeps contents here that other programs went over; see README.")]),
        NoticeFile(
            name: "README",
            text: """
                Truce preserves contents of files here before a program destroys them while another program uses the file.

                While this folder's parent is mounted by truce:
                    truce versions PATH                lists the versions of a file or of the files in a folder
                    truce versions PATH show ID        writes a version to standard output

                Truce removes a version when it is 30 days old and in no conflict, or when versions take too much room.
                Only the daemon uses "store". While nothing is mounted here, you may remove this folder, with all versions.

                """,
            formerTexts: [
                """
                Truce preserves contents of files here before a program destroys them while another program uses the file.

                While this folder's parent is mounted by truce:
                    truce kept PATH                    lists the versions of a file or of the files in a folder
                    truce kept PATH --restore ID -     writes a version to standard output

                Truce removes a version when it is 30 days old, or when versions take too much room. Only the daemon uses
                "store". While nothing is mounted here, you may remove this folder, with all versions.

                """,
                """
                Truce keeps contents here that a program went over while another program used the file.

                While this folder's parent is mounted by truce:
                    truce kept PATH                    lists what was kept of a file or folder
                    truce kept PATH --restore ID -     writes one version to standard output

                What is kept goes by itself: when it is 30 days old, or takes too much room. What is in
                "store" is for the daemon only. While nothing is mounted here, this folder may be removed
                as a whole, with all that is kept.

                """,
            ]),
    ]

    private static func cacheTag(_ sentence: String) -> String {
        """
        Signature: 8a477f597d28d172789f06886806bc55
        # \(sentence)
        # For the form of this file see https://bford.info/cachedir/

        """
    }
}
