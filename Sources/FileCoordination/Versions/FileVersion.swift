// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
public import Foundation
import Synchronization

/// One version of a file: its present contents, or contents that the store of the mount has preserved.
///
/// It corresponds to Apple's `NSFileVersion`, and has that name as an alias. The store preserves contents that would be lost,
/// and contents that a program adds. Conflict versions stay until they are resolved, within the limits of the mount.
///
/// **Coordination.** Reading properties needs no coordinated access. A method that changes a version or a file makes a
/// coordinated write of its own, within the accesses that the calling code holds. Presenters of the file and of the directories
/// above it are told of each version that is gained, lost or resolved, also if their own program is the cause.
///
/// **Threads.** All members may be used on any thread. Methods, and properties of a version, can wait for the daemon.
///
/// **Errors.** The methods throw ``FileCoordinationError``, or the error of the file system.
///
/// **Limits.** A file shows its 1000 newest versions. An empty file has no version except the current one.
open class FileVersion: NSObject, @unchecked Sendable {
    // @unchecked: `origin` never changes, and a stored version protects its own state.
    private enum Origin: Sendable {
        /// The present contents of the file at the URL. The generation is that of the time at which this object was made.
        case current(URL, generation: String?)
        case stored(StoredVersion)
    }

    private let origin: Origin

    private init(_ origin: Origin) { self.origin = origin }

    convenience init(_ version: StoredVersion) { self.init(.stored(version)) }

    /// Finds a version by its identifier. Returns nil if the version does not exist any more.
    public convenience init?(itemAt url: URL, forPersistentIdentifier persistentIdentifier: Any) {
        guard
            let identifier = persistentIdentifier as? String
                ?? (persistentIdentifier as? NSString)?.description
        else { return nil }
        if identifier == Self.currentIdentifier {
            guard Self.isFile(url) else { return nil }
            self.init(.current(url, generation: Self.presentGeneration(of: url)))
        } else {
            guard let version = Self.stored(url)?.first(where: { $0.id == identifier }) else { return nil }
            self.init(.stored(version))
        }
    }

    private static let currentIdentifier = "current"

    private var stored: StoredVersion? {
        if case .stored(let version) = origin { version } else { nil }
    }

    open override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? FileVersion else { return false }
        switch (origin, other.origin) {
        case (.current(let url, _), .current(let another, _)):
            return url.standardizedFileURL == another.standardizedFileURL
        case (.stored(let version), .stored(let another)):
            return version.id == another.id && version.connection === another.connection
        default: return false
        }
    }

    open override var hash: Int {
        switch origin {
        case .current(let url, _): url.standardizedFileURL.hashValue
        case .stored(let version): version.id.hashValue
        }
    }

    open override var description: String {
        switch origin {
        case .current(let url, _): "the current version of \(url.path)"
        case .stored(let version): "version \(version.id) of \(version.name)"
        }
    }
}

// Finding versions.
extension FileVersion {
    /// The present contents of a file as a version; nil if there is no file.
    public class func currentVersionOfItem(at url: URL) -> FileVersion? {
        isFile(url) ? FileVersion(.current(url, generation: presentGeneration(of: url))) : nil
    }

    /// All versions of a file in the store, the newest first; nil if there is no file, or if it is in no mount.
    public class func otherVersionsOfItem(at url: URL) -> [FileVersion]? {
        stored(url)?.map { FileVersion($0) }
    }

    /// The conflict versions of a file that are not resolved, the newest first; nil if there is no file, or if it is in no
    /// mount.
    public class func unresolvedConflictVersionsOfItem(at url: URL) -> [FileVersion]? {
        stored(url)?.filter { $0.form?.isUnresolvedConflict ?? false }.map { FileVersion($0) }
    }

    /// Finds a version by its identifier; nil if the version does not exist any more.
    public class func version(itemAt url: URL, forPersistentIdentifier persistentIdentifier: Any)
        -> FileVersion?
    {
        FileVersion(itemAt: url, forPersistentIdentifier: persistentIdentifier)
    }

    /// Calls the handler with the versions whose contents are not on this computer. There are none, because a mount has only
    /// local files.
    public class func getNonlocalVersionsOfItem(
        at url: URL, completionHandler: @escaping @Sendable ([FileVersion]?, (any Error)?) -> Void
    ) {
        let isThere = isFile(url)
        DispatchQueue.global().async {
            if isThere {
                completionHandler([], nil)
            } else {
                completionHandler(nil, CocoaError(.fileNoSuchFile))
            }
        }
    }

    /// Returns an empty list, because a mount has only local files. Throws if there is no file.
    public class func nonlocalVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        guard isFile(url) else { throw CocoaError(.fileNoSuchFile) }
        return []
    }

    private static func presentGeneration(of url: URL) -> String? {
        do throws(FileCoordinationError) {
            return try FileCoordinator.generation(ofItemAt: url)
        } catch {
            // The file is in no mount, is no document, or the daemon does not answer.
            return nil
        }
    }

    private static func isFile(_ url: URL) -> Bool {
        url.isFileURL && FileManager.default.fileExists(atPath: url.path)
    }

    private static func stored(_ url: URL) -> [StoredVersion]? {
        guard isFile(url) else { return nil }
        do throws(FileCoordinationError) {
            return try StoredVersion.list(of: try FileLocation(url))
        } catch {
            // Apple's methods return no error. The file is in no mount, or the daemon does not answer.
            if error.code != .notMounted {
                NSLog("%@", "no versions of \(url.path) are listed: \(error.message)")
            }
            return nil
        }
    }
}

// Adding and removing versions.
extension FileVersion {
    /// The options of ``addOfItem(at:withContentsOf:options:)``. Their raw values are the same as Apple's.
    public struct AddingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The file with the contents is removed when the version exists.
        public static let byMoving = Self(rawValue: 1)
    }

    /// The options of ``replaceItem(at:options:)``. Their raw values are the same as Apple's.
    public struct ReplacingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The version is removed from the store when the file has its contents.
        public static let byMoving = Self(rawValue: 1)
    }

    /// Adds a version to a file, with the contents of the same or another file.
    ///
    /// If the store has an equal version of the file from the last minute, that version is returned.
    public class func addOfItem(
        at url: URL, withContentsOf contentsURL: URL, options: AddingOptions = []
    ) throws -> FileVersion {
        let version = try VersionWrites.add(to: url, contentsOf: contentsURL)
        let isMoved =
            options.contains(.byMoving) && contentsURL.standardizedFileURL != url.standardizedFileURL
        if isMoved { try FileManager.default.removeItem(at: contentsURL) }
        return FileVersion(version)
    }

    /// A new empty directory in the file system of the file, for contents that will become a version of the file.
    ///
    /// The caller removes the directory. If it cannot be made beside the file, it is in the user's temporary directory.
    public class func temporaryDirectoryURLForNewVersionOfItem(at url: URL) -> URL {
        VersionWrites.stagingDirectory(for: url)
    }

    /// Removes all versions of a file from the store. The file keeps its present contents.
    ///
    /// - Throws: the first error. Versions that were removed before stay removed.
    public class func removeOtherVersionsOfItem(at url: URL) throws {
        try VersionWrites.removeAll(of: url)
    }

    /// Writes the contents of this version to a file, and returns the URL of the file.
    ///
    /// If the file exists, it keeps its owner, mode and attributes, and its former contents are preserved as a version. If the
    /// file does not exist, it is created. For the current version, the present contents of its file are copied.
    @discardableResult
    public func replaceItem(at url: URL, options: ReplacingOptions = []) throws -> URL {
        let isMoving = options.contains(.byMoving)
        switch origin {
        case .current(let own, _):
            if own.standardizedFileURL == url.standardizedFileURL { return url }
            return try VersionWrites.replace(url, withContentsAt: own)
        case .stored(let version):
            let written = try VersionWrites.replace(url, withContentsAt: try version.copy())
            if isMoving { try version.remove() }
            return written
        }
    }

    /// Removes this version from the store.
    ///
    /// - Precondition: This is not the current version.
    public func remove() throws {
        guard let stored else { preconditionFailure("the current version of a file cannot be removed") }
        try stored.remove()
    }
}

// Properties.
extension FileVersion {
    /// The URL of a file with the contents of this version. Do not write to this file, and do not show its path to users.
    ///
    /// For a version in the store, the first use copies the contents to a directory of this process. The copy is removed when
    /// the process exits, or when the process has used 256 other versions. If the contents cannot be read, no file has the URL.
    public var url: URL {
        switch origin {
        case .current(let url, _): return url
        case .stored(let version):
            do {
                return try version.copy()
            } catch {
                NSLog(
                    "%@",
                    "the contents of version \(version.id) cannot be read: \(error.localizedDescription)")
                return VersionCopies.missing(version.id)
            }
        }
    }

    /// The generation of the contents, for a write that is to overwrite these contents and no others; see
    /// ``FileCoordinator/write(_:options:ifGeneration:by:)``.
    ///
    /// For the current version, this is the generation that the file had when this object was made. So make the object within the
    /// access that reads the contents. Nil if the file is in no mount, or if the generation of a version is not known.
    public var generation: String? {
        switch origin {
        case .current(_, let generation): generation
        case .stored(let version): version.form?.generation
        }
    }

    /// The name of the file when the version was made; nil if the store does not have the version any more.
    public var localizedName: String? {
        switch origin {
        case .current(let url, _): url.lastPathComponent
        case .stored(let version): version.form.map { _ in version.name }
        }
    }

    /// The name of this computer; nil if the store does not have the version any more.
    public var localizedNameOfSavingComputer: String? {
        if let stored, stored.form == nil { return nil }
        return ProcessInfo.processInfo.hostName
    }

    /// The user whose program wrote the contents, with the user's name as the nickname; nil if the user is not known.
    public var originatorNameComponents: PersonNameComponents? {
        let user: UInt32? =
            switch origin {
            case .current(let url, _): Self.owner(of: url)
            case .stored(let version): version.form.map { $0.author?.user ?? $0.user }
            }
        guard let user, let name = VersionWrites.name(ofUser: user) else { return nil }
        var components = PersonNameComponents()
        components.nickname = name
        return components
    }

    private static func owner(of url: URL) -> UInt32? {
        do {
            let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
            return (attributes[.ownerAccountID] as? NSNumber)?.uint32Value
        } catch {
            // The file does not exist any more, so its owner is not known.
            return nil
        }
    }

    /// The time at which the contents were preserved, or at which the current version was written. Nil if the version does not
    /// exist any more.
    public var modificationDate: Date? {
        switch origin {
        case .current(let url, _):
            do {
                return try FileManager.default.attributesOfItem(atPath: url.path)[.modificationDate] as? Date
            } catch {
                // The file does not exist any more.
                return nil
            }
        case .stored(let version): return version.form.map { Date(timeIntervalSince1970: $0.time) }
        }
    }

    /// A value that identifies the version also in other processes and after a restart. Pass it to
    /// ``version(itemAt:forPersistentIdentifier:)``.
    public var persistentIdentifier: any NSCoding {
        NSString(string: stored?.id ?? Self.currentIdentifier)
    }

    /// Whether two programs disagreed about the contents when the version was made. This stays true when the conflict is
    /// resolved.
    public var isConflict: Bool { stored?.form?.isConflictVersion ?? false }

    /// Whether nothing is left to decide about this version: it is no conflict, or it is marked as resolved.
    ///
    /// - Precondition: It is only set to true. On a version that is resolved already, this does nothing.
    public var isResolved: Bool {
        get { !(stored?.form?.isUnresolvedConflict ?? false) }
        set {
            precondition(newValue, "a resolved version cannot become a conflict again")
            guard let stored, !isResolved else { return }
            do throws(FileCoordinationError) {
                try stored.resolve()
            } catch {
                NSLog("%@", "version \(stored.id) is not marked as resolved: \(error.message)")
            }
        }
    }

    /// Whether the daemon may remove the version at any time because of its age or for its room. This is so for every version
    /// in the store that is no unresolved conflict.
    ///
    /// As on Apple's systems, it can happen that setting it to true has no effect. This is so for an unresolved conflict.
    ///
    /// - Precondition: It is only set to true, and not on the current version.
    public var isDiscardable: Bool {
        get { stored.map { !($0.form?.isUnresolvedConflict ?? false) } ?? false }
        set {
            precondition(newValue, "a discardable version cannot become a lasting one again")
            precondition(stored != nil, "the current version of a file cannot be discarded")
        }
    }

    /// Whether the contents are on this computer: true as long as the version exists.
    public var hasLocalContents: Bool {
        switch origin {
        case .current(let url, _): Self.isFile(url)
        case .stored(let version): version.form != nil
        }
    }

    /// Always false, because the store has no thumbnails.
    public var hasThumbnail: Bool { false }
}
