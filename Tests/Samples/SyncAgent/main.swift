// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// An editor that has a list open. In some scenes the editor cannot save the list.
final class OpenList: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: the two variables are accessed only while `lock` is held; everything else never changes.
    static let full = NSError(
        domain: "org.example.OpenList", code: 28, userInfo: [NSLocalizedDescriptionKey: "No room."])

    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let report: @Sendable (String) -> Void
    private let lock = NSLock()
    private var unsaved: String?
    private var canSave = true

    init(url: URL, report: @escaping @Sendable (String) -> Void) {
        presentedItemURL = url
        self.report = report
        super.init()
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        NSFileCoordinator.addFilePresenter(self)
    }

    func close() { NSFileCoordinator.removeFilePresenter(self) }

    func edit(_ text: String, canSave: Bool = true) {
        lock.withLock {
            unsaved = text
            self.canSave = canSave
        }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        let (text, canSave) = lock.withLock { (unsaved, self.canSave) }
        guard let url = presentedItemURL, let text else { return completionHandler(nil) }
        guard canSave else { return completionHandler(Self.full) }
        do {
            try NSFileCoordinator(filePresenter: self).writing(url) {
                try Data(text.utf8).write(to: $0, options: .atomic)
            }
            lock.withLock { unsaved = nil }
            report("saved")
            completionHandler(nil)
        } catch {
            completionHandler(error)
        }
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        close()
        report("closed")
        completionHandler(nil)
    }
}

struct Rehearsal {
    let journal: RunJournal
    let directory: URL
    let agent = SyncAgent()
    let neighbour = OtherProgram()

    func url(_ name: String) -> URL { directory.appendingPathComponent(name) }

    func text(_ name: String) throws -> String {
        try agent.lines(of: url(name)).joined(separator: ", ")
    }

    func applying(_ change: Change, to name: String) -> EventualResult<Outcome> {
        let outcome = EventualResult<Outcome>("what became of a change of \(name)")
        agent.apply(change, to: url(name)) { outcome.settle(.success($0)) }
        return outcome
    }

    func apply(_ change: Change, to name: String) throws {
        journal.say("  the change is \(try applying(change, to: name).value())")
    }

    func purposes() {
        let (one, other) = (agent.makeCoordinator(), agent.makeCoordinator())
        journal.say("one purpose: \(one.purposeIdentifier == other.purposeIdentifier)")
        journal.say("one of its own: \(NSFileCoordinator().purposeIdentifier != one.purposeIdentifier)")
    }

    func merging() throws {
        journal.say("merging into a list that another program edits")
        try neighbour.write("milk\n", to: url("list.txt"), options: .forReplacing)
        let list = OpenList(url: url("list.txt")) { [journal] in journal.note("editor: \($0)") }
        list.edit("milk\nbread\n")
        try apply(.lines(["bread", "butter"]), to: "list.txt")
        try journal.expect("editor: saved")
        journal.say("  on the disk: \(try text("list.txt"))")

        journal.say("merging into a list that cannot be saved")
        list.edit("milk\nbread\nbutter\njam\n", canSave: false)
        try apply(.lines(["honey"]), to: "list.txt")
        journal.say("  on the disk: \(try text("list.txt"))")

        journal.say("deleting a list that another program presents")
        list.edit("milk\nbread\nbutter\njam\n")
        try apply(.deletion(last: ["milk", "bread", "butter"]), to: "list.txt")
        try journal.expect("editor: saved")
        try apply(.deletion(last: ["milk", "bread", "butter", "jam"]), to: "list.txt")
        try journal.expect("editor: closed")
        journal.say("  the file exists: \(FileManager.default.fileExists(atPath: url("list.txt").path))")
        list.close()
    }

    func pausing() throws {
        journal.say("pausing while another program writes")
        try neighbour.write("one\n", to: url("busy.txt"), options: .forReplacing)
        try neighbour.hold(url("busy.txt")) {
            let waiting = applying(.lines(["two"]), to: "busy.txt")
            agent.pause()
            journal.say("  the change is \(try waiting.value())")
        }
        agent.resume()
        try apply(.lines(["two"]), to: "busy.txt")
        journal.say("  on the disk: \(try text("busy.txt"))")
    }

    func replacing() throws {
        journal.say("replacing two files in one access")
        let downloads = try ["left", "right"].map { name in
            let download = url("\(name).download")
            try Data("\(name) side\n".utf8).write(to: download)
            return (url: url("\(name).txt"), download: download)
        }
        let names = EventualResult<[String]>("two files to be replaced")
        agent.replace(downloads) { names.settle($0) }
        journal.say("  replaced: \(try names.value().joined(separator: ", "))")
        journal.say("  on the disk: \(try text("left.txt")), \(try text("right.txt"))")
    }

    func uploading() throws {
        journal.say("uploading a file and a folder")
        let outbox = url("outbox")
        let folder = url("folder")
        try FileManager.default.createDirectory(at: outbox, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data("inside\n".utf8).write(to: folder.appendingPathComponent("inside.txt"))
        let list = OpenList(url: url("left.txt")) { [journal] in journal.note("editor: \($0)") }
        list.edit("left side, edited\n")
        let sent = try agent.upload(url("left.txt"), to: outbox)
        try journal.expect("editor: saved")
        list.close()
        journal.say("  in the outbox: \(sent.lastPathComponent): \(try text("outbox/left.txt"))")

        let archived = EventualResult<URL>("an archive of a folder")
        agent.uploadArchive(of: folder, to: outbox) { archived.settle($0) }
        let archive = try archived.value()
        let isZip = try Data(contentsOf: archive).starts(with: [0x50, 0x4B, 0x03, 0x04])
        journal.say("  in the outbox: \(archive.lastPathComponent), a zip archive: \(isZip)")
    }
}

RunJournal.run("SyncAgent") { journal, directory in
    let rehearsal = Rehearsal(journal: journal, directory: directory)
    rehearsal.purposes()
    try rehearsal.merging()
    try rehearsal.pausing()
    try rehearsal.replacing()
    try rehearsal.uploading()
    rehearsal.agent.queue.waitUntilAllOperationsAreFinished()
    journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
}
