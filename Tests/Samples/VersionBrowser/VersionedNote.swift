// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// A note that shows its versions. It is told of each version that is gained, lost or resolved.
final class VersionedNote: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: all properties are constant.
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let report: @Sendable (String) -> Void

    init(url: URL, report: @escaping @Sendable (String) -> Void) {
        presentedItemURL = url
        self.report = report
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    func presentedItemDidGain(_ version: NSFileVersion) {
        report("gained a version of \(version.localizedName ?? "nothing")")
    }

    func presentedItemDidLose(_ version: NSFileVersion) {
        report("lost a version; has local contents: \(version.hasLocalContents)")
    }

    func presentedItemDidResolveConflict(_ version: NSFileVersion) {
        report("a conflict is resolved: \(version.isResolved)")
    }
}

/// A list of the notes in a folder. It is told of the versions of all notes in the folder.
final class NoteList: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: all properties are constant.
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let report: @Sendable (String) -> Void

    init(url: URL, report: @escaping @Sendable (String) -> Void) {
        presentedItemURL = url
        self.report = report
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    func presentedSubitem(at url: URL, didGain version: NSFileVersion) {
        report("\(url.lastPathComponent) gained a version")
    }

    func presentedSubitem(at url: URL, didLose version: NSFileVersion) {
        report("\(url.lastPathComponent) lost a version")
    }

    func presentedSubitem(at url: URL, didResolve version: NSFileVersion) {
        report("a conflict of \(url.lastPathComponent) is resolved")
    }
}
