// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Reads details of files that a browser shows without opening the files.
enum Preview {
    /// Returns the first line of the file on the disk. A presenter with unsaved changes is not asked to save for this read.
    static func firstLine(of url: URL) throws -> String {
        try read(url, .withoutChanges) { url in
            let handle = try FileHandle(forReadingFrom: url)
            defer { handle.closeFile() }
            let beginning = try handle.read(upToCount: 4096) ?? Data()
            let text = String(bytes: beginning, encoding: .utf8) ?? ""
            return text.split(separator: "\n").first.map(String.init) ?? ""
        }
    }

    /// Returns the size of a file and whether it is a folder. The values come from local metadata, so no contents are
    /// downloaded.
    static func details(of url: URL) throws -> (size: Int, isFolder: Bool) {
        try read(url, .immediatelyAvailableMetadataOnly) { url in
            let values = try url.resourceValues(forKeys: [.fileSizeKey, .isDirectoryKey])
            return (values.fileSize ?? 0, values.isDirectory ?? false)
        }
    }

    /// Returns the name of a link's target, and the text in the target.
    static func target(of link: URL) throws -> (name: String, text: String) {
        try read(link, .resolvesSymbolicLink) { url in
            (url.lastPathComponent, try String(contentsOf: url, encoding: .utf8))
        }
    }

    /// Returns the path that the link itself contains.
    static func destination(of link: URL) throws -> String {
        try read(link, []) { try FileManager.default.destinationOfSymbolicLink(atPath: $0.path) }
    }

    private static func read<Value>(
        _ url: URL, _ options: NSFileCoordinator.ReadingOptions, _ body: (URL) throws -> Value
    ) throws -> Value {
        var coordinationError: NSError?
        var result: Result<Value, any Error>?
        NSFileCoordinator(filePresenter: nil).coordinate(
            readingItemAt: url, options: options, error: &coordinationError
        ) { newURL in
            result = Result { try body(newURL) }
        }
        if let coordinationError { throw coordinationError }
        guard let result else { throw CocoaError(.fileReadUnknown) }
        return try result.get()
    }
}

/// Reads the subtitles beside a film. The user chose only the film, but the file with the subtitles belongs to it.
final class Subtitles: NSObject, NSFilePresenter {
    let primaryPresentedItemURL: URL?
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()

    init(of film: URL) {
        primaryPresentedItemURL = film
        presentedItemURL = film.deletingPathExtension().appendingPathExtension("srt")
        super.init()
    }

    /// Returns the text of the subtitles. The presenter stays registered during the read, because in a sandbox only this makes
    /// the second file accessible.
    func text() throws -> String {
        NSFileCoordinator.addFilePresenter(self)
        defer { NSFileCoordinator.removeFilePresenter(self) }
        guard let url = presentedItemURL else { throw CocoaError(.fileNoSuchFile) }
        var coordinationError: NSError?
        var result: Result<String, any Error> = .success("")
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: url, options: .withoutChanges, error: &coordinationError
        ) { newURL in
            result = Result { try String(contentsOf: newURL, encoding: .utf8) }
        }
        if let coordinationError { throw coordinationError }
        return try result.get()
    }
}

/// A document that is open in another program and has unsaved changes.
final class OpenDocument: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: `unsaved` is accessed only while `lock` is held; everything else never changes.
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let lock = NSLock()
    private var unsaved: String?

    init(url: URL, unsaved: String) {
        presentedItemURL = url
        self.unsaved = unsaved
        super.init()
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
    }

    var isSaved: Bool { lock.withLock { unsaved == nil } }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        guard let url = presentedItemURL, let text = lock.withLock({ unsaved }) else {
            return completionHandler(nil)
        }
        var coordinationError: NSError?
        var writeError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(writingItemAt: url, error: &coordinationError) {
            do {
                try Data(text.utf8).write(to: $0, options: .atomic)
                lock.withLock { unsaved = nil }
            } catch {
                writeError = error
            }
        }
        completionHandler(coordinationError ?? writeError)
    }
}
