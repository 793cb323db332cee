// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The directories and files of a store.
///
///     .truce/            0700, the daemon's
///         version        says that this is ours, and of which form
///         kept.log       one line for each file kept or dropped
///         kept/ID        the files
///         kept/ID.copying   one that is not complete
package struct StoreLayout: ~Copyable {
    static let home = ".truce"
    private static let marker = "version"
    private static let newMarker = "version.new"
    private static let log = "kept.log"
    private static let kept = "kept"
    private static let markerText = Array("truce store 1\n".utf8)

    /// Takes the exclusive lock of a file; false if another process has it.
    package typealias LockTaking = (borrowing OwnedDescriptor) throws(Errno) -> Bool

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
            return try open(in: root, isNew: &isNew, takeLock)
        } catch {
            if isNew { remove(from: root, log: log) }
            throw error
        }
    }

    /// Takes a store away in which nothing is kept.
    static func remove(from root: borrowing OwnedDescriptor, log: (String) -> Void) {
        do throws(Errno) {
            let home = try StoreDirectory.open(Self.home, in: root)
            // The directory first, because it stays if anything is in it. How far its making came, who knows.
            for (name, isDirectory) in [(kept, true), (Self.log, false), (marker, false), (newMarker, false)]
            {
                do throws(Errno) {
                    try home.remove(name, isDirectory: isDirectory)
                } catch {
                    guard error == .noEntry else { throw error }
                }
            }
            try StoreDirectory.open(".", in: root).remove(Self.home, isDirectory: true)
        } catch {
            log("the store of kept contents could not be taken away: \(error)")
        }
    }

    private static func open(
        in root: borrowing OwnedDescriptor, isNew: inout Bool, _ takeLock: LockTaking
    ) throws(StoreError) -> StoreLayout {
        let home = try openOrMakeHome(in: root, isNew: &isNew)
        try checkOwner(home)
        try checkMarker(home)
        let kept = try storing { () throws(Errno) in try home.subdirectory(Self.kept) }
        var isReadOnly = false
        let log = try openLog(in: home, isReadOnly: &isReadOnly, takeLock)
        if !isReadOnly { try storing { () throws(Errno) in try home.synchronise() } }
        return StoreLayout(kept: kept, log: log, isReadOnly: isReadOnly, isNew: isNew)
    }

    /// The log, locked, and open for reading only; see `KeptLog.append`.
    private static func openLog(
        in home: borrowing StoreDirectory, isReadOnly: inout Bool, _ takeLock: LockTaking
    ) throws(StoreError) -> OwnedDescriptor {
        isReadOnly = try !makeLog(in: home)
        let log = try storing { () throws(Errno) in try home.open(Self.log) }
        do throws(Errno) {
            guard try takeLock(log) else { throw Errno.busy }
            // Its last holder may have taken the store away again.
            guard try log.status().linkCount > 0 else { throw Errno.busy }
            return log
        } catch .busy {
            throw .inUse
        } catch .badDescriptor {
            // NFS locks only what is open for writing.
            let writable = try storing { () throws(Errno) in try home.openAppending(Self.log) }
            guard try storing({ () throws(Errno) in try takeLock(writable) }) else { throw .inUse }
            return writable
        } catch {
            throw StoreError(error)
        }
    }

    /// Whether the log can be written.
    private static func makeLog(in home: borrowing StoreDirectory) throws(StoreError) -> Bool {
        do throws(Errno) {
            _ = try home.openAppending(Self.log)
            return true
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
            isNew = try storing { () throws(Errno) in try StoreDirectory.make(home, in: root) }
            // The root may be an `O_PATH` descriptor, which cannot be synchronised itself.
            try storing { () throws(Errno) in try StoreDirectory.open(".", in: root).synchronise() }
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

    private static func checkOwner(_ home: borrowing StoreDirectory) throws(StoreError) {
        let status = try storing { () throws(Errno) in try home.status() }
        guard status.user == OwnProcess.user else {
            throw .foreign("it belongs to user \(status.user), not to user \(OwnProcess.user)")
        }
        guard status.mode & 0o777 == 0o700 else {
            throw .foreign("its mode is \(String(status.mode & 0o777, radix: 8)), not 700")
        }
    }

    /// A directory with our marker is ours.
    ///
    /// So is one with nothing in it: a daemon that was killed
    /// before it could write the marker leaves that.
    private static func checkMarker(_ home: borrowing StoreDirectory) throws(StoreError) {
        let names = try storing { () throws(Errno) in try home.names() }
        if names.contains(marker) {
            let text = try storing { () throws(Errno) in
                try home.open(marker).read(at: 0, count: markerText.count + 1)
            }
            guard text == markerText else { throw .foreign("its file \(marker) is of another kind") }
        } else {
            guard names.isEmpty || names == [newMarker] else {
                throw .foreign("it has no file \(marker)")
            }
            try storing { () throws(Errno) in try writeMarker(home, replacing: names) }
        }
    }

    private static func writeMarker(
        _ home: borrowing StoreDirectory, replacing former: [String]
    ) throws(Errno) {
        for name in former { try home.remove(name) }
        let file = try home.create(newMarker)
        try file.writeAll(markerText)
        try file.synchronise()
        try home.rename(newMarker, to: marker)
        try home.synchronise()
    }
}
