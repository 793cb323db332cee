// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Shows the contents of a folder or package, and updates them when other programs change something.
final class FolderBrowser: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: the two variables are accessed only while `lock` is held; everything else never changes.
    let presentedItemOperationQueue: OperationQueue
    private let report: @Sendable (String) -> Void
    private let lock = NSLock()
    private var folder: URL
    private var names: Set<String> = []

    init(folder: URL, report: @escaping @Sendable (String) -> Void) {
        self.folder = folder
        self.report = report
        presentedItemOperationQueue = OperationQueue()
        presentedItemOperationQueue.name = "org.example.FolderBrowser"
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    var presentedItemURL: URL? { lock.withLock { folder } }

    /// The names that the browser shows, sorted, including those in subfolders.
    var contents: [String] { lock.withLock { names.sorted() } }

    // MARK: - Reading the folder

    /// Registers as a presenter and reads the folder in one access. So the browser gets a notice of every item that is made
    /// later.
    func start() throws {
        try readFolder { NSFileCoordinator.addFilePresenter(self) }
    }

    func stop() {
        NSFileCoordinator.removeFilePresenter(self)
    }

    func refresh() throws {
        try readFolder {}
    }

    private func readFolder(within body: () -> Void) throws {
        let coordinator = NSFileCoordinator(filePresenter: self)
        var coordinationError: NSError?
        var readError: (any Error)?
        coordinator.coordinate(
            readingItemAt: lock.withLock { folder }, options: [], error: &coordinationError
        ) { newURL in
            do {
                let found = try Self.names(in: newURL)
                lock.withLock {
                    folder = newURL
                    names = found
                }
                body()
            } catch {
                readError = error
            }
        }
        if let error = coordinationError ?? readError { throw error }
    }

    private static func names(in folder: URL) throws -> Set<String> {
        try Set(FileManager.default.subpathsOfDirectory(atPath: folder.path))
    }

    /// Returns the name of an item in the folder as the user sees it.
    private func name(of url: URL) -> String {
        let base = lock.withLock { folder.path } + "/"
        return url.path.hasPrefix(base) ? String(url.path.dropFirst(base.count)) : url.lastPathComponent
    }

    // MARK: - Changes of items in the folder

    func presentedSubitemDidAppear(at url: URL) {
        let name = name(of: url)
        lock.withLock { _ = names.insert(name) }
        report("appeared: \(name)")
    }

    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
        let (oldName, newName) = (name(of: oldURL), name(of: newURL))
        lock.withLock {
            names.remove(oldName)
            names.insert(newName)
        }
        report("moved: \(oldName) to \(newName)")
    }

    /// Called when an item was changed or deleted. There is no separate message for a deletion, so the method checks whether
    /// the item exists.
    func presentedSubitemDidChange(at url: URL) {
        let name = name(of: url)
        if FileManager.default.fileExists(atPath: url.path) {
            report("changed: \(name)")
        } else {
            lock.withLock { _ = names.remove(name) }
            report("gone: \(name)")
        }
    }

    /// Only presenters of packages get this question. A presenter of a plain folder is not asked before an item in the folder
    /// is deleted.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        report("lets go of \(name(of: url))")
        completionHandler(nil)
    }

    // MARK: - Changes of the folder itself

    func presentedItemDidMove(to newURL: URL) {
        lock.withLock { folder = newURL }
        report("is now \(newURL.lastPathComponent)")
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        stop()
        report("closed")
        completionHandler(nil)
    }
}

/// Shows a package as one item. A change of any file in the package is a change of this item.
///
/// This presenter does not implement the messages about files in the package. For each of these messages it gets
/// `presentedItemDidChange`.
final class PackageIcon: NSObject, NSFilePresenter {
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let report: @Sendable (String) -> Void

    init(package: URL, report: @escaping @Sendable (String) -> Void) {
        presentedItemURL = package
        self.report = report
        super.init()
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
    }

    func presentedItemDidChange() {
        report("drawn again")
    }

    func accommodatePresentedSubitemDeletion(at url: URL) async throws {
        report("asked about \(url.lastPathComponent)")
    }
}
