// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation
import LinuxSystem

/// Changes of files and of their versions. Each change is a coordinated write within the accesses of the calling code.
enum VersionWrites {
    /// Adds a version to the file at a URL, and returns it.
    static func add(to url: URL, contentsOf contentsURL: URL) throws -> StoredVersion {
        var result: Result<StoredVersion, any Error>?
        try write(url) { url in
            result = Result { try add(toHeld: url, contentsOf: contentsURL) }
        }
        guard let result else { throw CocoaError(.userCancelled) }
        return try result.get()
    }

    private static func add(toHeld url: URL, contentsOf contentsURL: URL) throws -> StoredVersion {
        let location = try FileLocation(url)
        let contents = try contentsInMount(contentsURL, of: location)
        defer { contents.remove() }
        let request = PreserveParameters(path: location.pathInMount, contents: contents.path)
        let preserved: PreserveResult = try location.connection.call(.preserveVersion(request))
        guard let id = preserved.id else {
            throw FileCoordinationError(
                .invalid, "'\(contentsURL.path)' is empty, and an empty file has no version")
        }
        return StoredVersion(id, of: location.pathInMount, on: location.connection)
    }

    /// A file in the mount with the contents of a new version.
    private struct Contents {
        let path: [UInt8]
        /// The copy to remove afterwards; nil if the file belongs to the program.
        let copy: URL?

        func remove() {
            guard let copy else { return }
            do {
                try FileManager.default.removeItem(at: copy)
            } catch {
                NSLog("%@", "a copy for a new version stays at \(copy.path): \(error)")
            }
        }
    }

    /// The daemon reads the contents from a file in its own mount. If the contents are elsewhere, this copies them to a helper
    /// file beside the document.
    private static func contentsInMount(_ contentsURL: URL, of document: FileLocation) throws -> Contents {
        if let location = mounted(contentsURL), location.connection === document.connection {
            return Contents(path: location.pathInMount, copy: nil)
        }
        let copy = try uniqueName(beside: document.url) { template in
            let descriptor = mkstemp(template)
            if descriptor >= 0 { close(descriptor) }
            return descriptor >= 0
        }
        let contents = Contents(path: try FileLocation(copy).pathInMount, copy: copy)
        do {
            try overwrite(copy, withContentsAt: contentsURL)
        } catch {
            contents.remove()
            throw error
        }
        return contents
    }

    private static func mounted(_ url: URL) -> FileLocation? {
        do throws(FileCoordinationError) {
            return try FileLocation(url)
        } catch {
            // The file is in no mount.
            return nil
        }
    }

    /// Makes a file or directory with a new name that Truce knows as the name of a helper file of the document.
    private static func uniqueName(
        beside url: URL, _ make: (UnsafeMutablePointer<CChar>) -> Bool
    ) throws -> URL {
        let directory = url.deletingLastPathComponent()
        let template = directory.appendingPathComponent(".\(url.lastPathComponent).XXXXXX").path
        var bytes = Array(template.utf8CString)
        guard bytes.withUnsafeMutableBufferPointer({ $0.baseAddress.map(make) ?? false }) else {
            throw FileCoordinationError(
                .failed, "no file can be made in '\(directory.path)': \(Errno.last)")
        }
        let path = bytes.dropLast().map { UInt8(bitPattern: $0) }
        return URL(fileURLWithPath: String(decoding: path, as: UTF8.self))
    }

    static func stagingDirectory(for url: URL) -> URL {
        do {
            return try uniqueName(beside: url) { mkdtemp($0) != nil }
        } catch {
            NSLog("%@", "no directory for a new version can be made beside \(url.path): \(error)")
        }
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("FileVersion-new-\(UUID().uuidString)", isDirectory: true)
        do {
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            NSLog("%@", "\(directory.path) cannot be made: \(error)")
        }
        return directory
    }

    /// Removes all versions of the file at a URL.
    static func removeAll(of url: URL) throws {
        var result: Result<Void, any Error>?
        try write(url) { url in
            result = Result {
                var versions: [StoredVersion] = []
                while true {
                    // One list does not have all versions if there are many.
                    let next = try StoredVersion.list(of: try FileLocation(url))
                    guard let first = next.first, first.id != versions.first?.id else { return }
                    versions = next
                    for version in versions { try version.remove() }
                }
            }
        }
        try result?.get()
    }

    /// Writes contents to a file within a coordinated write. The former contents of the file are preserved first.
    static func replace(_ url: URL, withContentsAt contentsURL: URL) throws -> URL {
        var result: Result<URL, any Error>?
        try write(url, options: .forMerging) { url in
            result = Result {
                let location = try FileLocation(url)
                if FileManager.default.fileExists(atPath: url.path) {
                    let request = PreserveParameters(path: location.pathInMount)
                    let _: PreserveResult = try location.connection.call(.preserveVersion(request))
                }
                try overwrite(url, withContentsAt: contentsURL)
                return url
            }
        }
        guard let result else { throw CocoaError(.userCancelled) }
        return try result.get()
    }

    /// Makes a coordinated write within the accesses of the calling code. It has the purpose of the innermost access, so that a
    /// presenter is not asked because of its own code.
    private static func write(
        _ url: URL, options: FileCoordinator.WritingOptions = [], _ body: (URL) -> Void
    ) throws {
        let coordinator = FileCoordinator()
        if let outer = AccessContext.current.held.last { coordinator.purposeIdentifier = outer.purpose }
        var error: NSError?
        coordinator.coordinate(writingItemAt: url, options: options, error: &error, byAccessor: body)
        guard let error else { return }
        throw FileCoordinationError(error) ?? error
    }

    /// Overwrites a file, so that it keeps its owner, mode and attributes. Creates the file if it does not exist.
    private static func overwrite(_ url: URL, withContentsAt contentsURL: URL) throws {
        let source = try descriptor(of: contentsURL, O_RDONLY)
        let target = try descriptor(of: url, O_WRONLY | O_CREAT | O_NOFOLLOW)
        do throws(Errno) {
            let size = try source.copyContents(to: target, limit: .max)
            try target.shorten(to: size)
            try target.synchronize()
        } catch {
            throw FileCoordinationError(.failed, "'\(url.path)' cannot be written: \(error)")
        }
    }

    private static func descriptor(of url: URL, _ flags: Int32) throws -> OwnedDescriptor {
        let descriptor = url.withUnsafeFileSystemRepresentation { path in
            path.map { open($0, flags | O_CLOEXEC, 0o666) } ?? -1
        }
        guard descriptor >= 0 else {
            throw FileCoordinationError(.failed, "'\(url.path)' cannot be opened: \(Errno.last)")
        }
        return OwnedDescriptor(adopting: descriptor)
    }

    /// The name of a user; nil if the system does not know the user.
    static func name(ofUser user: UInt32) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            guard let base = buffer.baseAddress,
                getpwuid_r(user, &entry, base, buffer.count, &found) == 0, let name = found?.pointee.pw_name
            else { return nil }
            return String(cString: name)
        }
    }
}
