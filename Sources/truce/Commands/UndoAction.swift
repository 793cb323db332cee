// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import History
import LinuxSystem

/// Carries out the steps of `truce undo`, one document at a time.
///
/// The command itself changes the files, and not the daemon, because the user's rights must apply.
struct UndoAction {
    enum Result {
        case done(String)
        case stays(String)

        var words: String {
            switch self {
            case .done(let words): words
            case .stays(let why): "stays: \(why)"
            }
        }
    }

    private let mount: MountEntry
    private let isDryRun: Bool
    private let removesCreated: Bool
    /// The directories that a dry run has found to be made again.
    private var planned: Set<[UInt8]> = []

    init(in mount: MountEntry, isDryRun: Bool, removesCreated: Bool) {
        self.mount = mount
        self.isDryRun = isDryRun
        self.removesCreated = removesCreated
    }

    /// Carries out one step. An error is the reason why the document stays.
    mutating func carryOut(_ step: UndoStep) throws -> Result {
        do {
            return try attempt(step)
        } catch let failure as CommandFailure {
            return .stays(failure.message)
        } catch let error as Errno {
            return .stays("it cannot be reached: \(error)")
        }
    }

    private mutating func attempt(_ step: UndoStep) throws -> Result {
        let path = step.path
        if case .stays(let why) = step.decision { return .stays(why) }
        if let why = try displacement(from: step) { return .stays(why) }
        switch step.decision {
        case .stays(let why): return .stays(why)
        case .restore(let version, let generation):
            return try overwrite(path, if: generation, "restored from version \(version)") { contents in
                try fetch(version) { bytes throws(CommandFailure) in try contents.append(bytes) }
            }
        case .empty(let generation): return try overwrite(path, if: generation, "empty again") { _ in }
        case .remake(let version): return try remake(path, from: version)
        case .remakeDirectory: return try remakeDirectory(path)
        case .remove(let generation): return try remove(path, if: generation)
        }
    }

    /// Returns why a path does not lead to the document any more; nil if it does. A directory on the path can have become a
    /// symbolic link to another directory, whose files the run has not written.
    private func displacement(from step: UndoStep) throws -> String? {
        var path = step.path
        if step.makesAgain {
            // The document does not exist, but its directory must be the one in which the run deleted it.
            path = step.directory
            if path.isEmpty || planned.contains(path) { return nil }
        }
        let target = MountedPath(path, in: mount).absolute
        var status = stat()
        guard target.withPath({ lstat($0, &status) }) == 0 else {
            let error = Errno.last
            return step.makesAgain && error == .noEntry
                ? "its directory does not exist any more\(step.hint)" : "it cannot be found: \(error)"
        }
        do throws(ClientFailure) {
            return try MountedPath(target).pathInMount == path
                ? nil : "its path leads to another place now, by a symbolic link"
        } catch {
            guard error.status == .notFound else { throw error }
            return "its path leads out of the mount now, by a symbolic link"
        }
    }

    /// Returns why a file is not what the run left; nil if it is.
    private static func difference(of status: FileStatus?, from generation: String?) -> String? {
        guard let status else { return "it does not exist any more" }
        guard status.isRegularFile else { return "it is not a file any more" }
        guard let generation, HistoryGeneration.name(of: status) != generation else { return nil }
        return "it was changed since: around the mount, by a merge, or by a program that has it open"
    }

    private func overwrite(
        _ path: [UInt8], if generation: String?, _ words: String,
        fill: (borrowing UnnamedFile) throws -> Void
    ) throws -> Result {
        let present = try SteadyPlace(path, in: mount).status()
        if let why = Self.difference(of: present, from: generation) { return .stays(why) }
        if isDryRun { return .done("would be \(words)") }
        guard let document = try RestoredDocument(at: MountedPath(path, in: mount).absolute) else {
            return .stays("it is no file in a mount")
        }
        let contents = try UnnamedFile()
        try fill(contents)
        // No other program can write during the access, so the check counts until the document is written.
        try document.write(contents.descriptor) { Self.difference(of: $0, from: generation) }
        return .done(words)
    }

    private func fetch(
        _ version: String, _ take: ([UInt8]) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        var client = try DaemonClient(to: mount)
        try client.fetch(version, of: [], take)
    }

    /// The new file has mode 0600, because the access control list of the deleted file is not known.
    private func remake(_ path: [UInt8], from version: String?) throws -> Result {
        let source = version.map { "from version \($0)" } ?? "and is empty"
        if planned.contains(path.directory) { return .done("would be made again \(source)") }
        let place = try SteadyPlace(path, in: mount)
        guard try place.status() == nil else {
            return .stays("the run deleted it, and another file has its name now")
        }
        if isDryRun { return .done("would be made again \(source)") }
        var file = try RestoredFile(
            at: MountedPath(path, in: mount).absolute, by: place.path, replacing: false)
        if let version {
            try fetch(version) { bytes throws(CommandFailure) in try file.append(bytes) }
        }
        try file.finish()
        return .done("made again \(source); only its owner can read it")
    }

    private mutating func remakeDirectory(_ path: [UInt8]) throws -> Result {
        if isDryRun {
            planned.insert(path)
            return .done("would be made again")
        }
        let place = try SteadyPlace(path, in: mount)
        guard try place.status() == nil else { return .stays("the run deleted it, but it exists again") }
        try place.makeDirectory(mode: 0o700)
        return .done("made again; only its owner can use it")
    }

    private func remove(_ path: [UInt8], if generation: String?) throws -> Result {
        guard removesCreated else { return .stays("the run made it; --created removes it") }
        let place = try SteadyPlace(path, in: mount)
        let status = try place.status()
        if status?.isDirectory ?? false {
            if isDryRun { return .done("would be removed if it is empty") }
            return try Self.remove(place, isDirectory: true)
        }
        if let why = Self.difference(of: status, from: generation) { return .stays(why) }
        if isDryRun { return .done("would be removed") }
        return try removeFile(path, if: generation)
    }

    /// Preserves and removes a file while no other program uses it.
    private func removeFile(_ path: [UInt8], if generation: String?) throws -> Result {
        var wire = try DaemonClient(to: mount).release()
        let intent = IntentForm(path, .write(.forDeleting))
        let access: AccessBeginResult = try wire.callPatiently(
            .beginAccess(AccessBeginParameters([intent])), in: mount)
        // Another program can have written or moved the file until the access was granted. The end of the connection ends the
        // access.
        let place = try SteadyPlace(path, in: mount)
        if let why = Self.difference(of: try place.status(), from: generation) { return .stays(why) }
        let former: PreserveResult = try wire.callPatiently(
            .preserveVersion(PreserveParameters(path: path)), in: mount)
        let result = try Self.remove(place, isDirectory: false, preservedAs: former.id)
        let _: EmptyResult = try wire.callPatiently(
            .endAccess(AccessEndParameters(access: access.access)), in: mount)
        return result
    }

    private static func remove(
        _ place: borrowing SteadyPlace, isDirectory: Bool, preservedAs version: String? = nil
    ) throws -> Result {
        do throws(Errno) {
            try place.remove(isDirectory: isDirectory)
        } catch {
            return .stays("it cannot be removed: \(error)")
        }
        return .done(version.map { "removed; version \($0) has its contents" } ?? "removed")
    }
}
