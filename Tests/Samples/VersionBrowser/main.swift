// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// The scenes of this sample: a program adds versions to its note, shows them, goes back to one of them, and removes them.
struct Rehearsal {
    let journal: RunJournal
    let url: URL
    let neighbour = OtherProgram()
    let note: VersionedNote
    let list: NoteList

    init(journal: RunJournal, directory: URL) throws {
        self.journal = journal
        url = directory.appendingPathComponent("note.txt")
        try neighbour.write("first", to: url, options: .forReplacing)
        note = VersionedNote(url: url) { journal.note("note: \($0)") }
        list = NoteList(url: directory) { journal.note("list: \($0)") }
        NSFileCoordinator.addFilePresenter(note)
        NSFileCoordinator.addFilePresenter(list)
    }

    func lookingAround() throws {
        journal.say("a note without versions")
        let current = NSFileVersion.currentVersionOfItem(at: url)
        journal.say(
            "  current: \(current?.localizedName ?? "nothing"), conflict: \(current?.isConflict ?? true)")
        journal.say("  current has a date: \(current?.modificationDate != nil)")
        journal.say("  others: \(NSFileVersion.otherVersionsOfItem(at: url)?.count ?? -1)")
        journal.say("  in conflict: \(NSFileVersion.unresolvedConflictVersionsOfItem(at: url)?.count ?? -1)")
        let nothing = url.deletingLastPathComponent().appendingPathComponent("no such note")
        journal.say(
            "  of no file: \(NSFileVersion.otherVersionsOfItem(at: nothing) == nil ? "nothing" : "something")"
        )
        let nonlocal = EventualResult<Int>("the nonlocal versions")
        NSFileVersion.getNonlocalVersionsOfItem(at: url) { versions, _ in
            nonlocal.settle(.success(versions?.count ?? -1))
        }
        journal.say("  elsewhere: \(try nonlocal.value())")
    }

    /// Adds the contents of the note as a version before the note is overwritten, as document classes do.
    func adding() throws -> NSFileVersion {
        journal.say("a version of the note's contents is added in a write")
        var failure: NSError?
        var result: Result<NSFileVersion, any Error>?
        NSFileCoordinator(filePresenter: note).coordinate(writingItemAt: url, options: [], error: &failure) {
            url in
            result = Result {
                let version = try NSFileVersion.addOfItem(at: url, withContentsOf: url, options: [])
                try Data("second".utf8).write(to: url)
                return version
            }
        }
        if let failure { throw failure }
        guard let version = try result?.get() else { throw UnexpectedEvent(what: "no version") }
        try journal.expect("note: gained a version of note.txt")
        try journal.expect("list: note.txt gained a version")
        journal.say("  the version: \(try String(contentsOf: version.url, encoding: .utf8))")
        journal.say("  the note: \(try neighbour.read(url))")
        journal.say("  conflict: \(version.isConflict), resolved: \(version.isResolved)")
        journal.say("  discardable: \(version.isDiscardable), thumbnail: \(version.hasThumbnail)")
        journal.say("  made by a known user: \(version.originatorNameComponents?.nickname != nil)")
        journal.say("  made on a known computer: \(version.localizedNameOfSavingComputer?.isEmpty == false)")
        return version
    }

    func moving() throws {
        journal.say("a version of contents from elsewhere is added by moving")
        let staging = NSFileVersion.temporaryDirectoryURLForNewVersionOfItem(at: url)
        let staged = staging.appendingPathComponent("contents")
        try Data("from elsewhere".utf8).write(to: staged)
        let version = try NSFileVersion.addOfItem(at: url, withContentsOf: staged, options: .byMoving)
        try journal.expect("note: gained a version of note.txt")
        journal.say("  the version: \(try String(contentsOf: version.url, encoding: .utf8))")
        journal.say("  the contents are left: \(FileManager.default.fileExists(atPath: staged.path))")
        try FileManager.default.removeItem(at: staging)
        journal.say("  others: \(NSFileVersion.otherVersionsOfItem(at: url)?.count ?? -1)")
    }

    func finding(_ version: NSFileVersion) throws {
        journal.say("a version is found again by its identifier")
        let found = NSFileVersion.version(itemAt: url, forPersistentIdentifier: version.persistentIdentifier)
        journal.say(
            "  it is the same: \(found == version), and not the current one: \(found != .currentVersionOfItem(at: url))"
        )
    }

    func goingBack(to version: NSFileVersion) throws {
        journal.say("the note goes back to the version")
        let replaced = try version.replaceItem(at: url, options: [])
        journal.say("  \(replaced.lastPathComponent): \(try neighbour.read(url))")
        try journal.expect("note: gained a version of note.txt")
        journal.say("  others: \(NSFileVersion.otherVersionsOfItem(at: url)?.count ?? -1)")
    }

    func removing(_ version: NSFileVersion) throws {
        journal.say("a version is removed, and then all others")
        try version.remove()
        try journal.expect("note: lost a version; has local contents: false")
        try journal.expect("list: note.txt lost a version")
        journal.say(
            "  found: \(NSFileVersion.version(itemAt: url, forPersistentIdentifier: version.persistentIdentifier) != nil)"
        )
        try NSFileVersion.removeOtherVersionsOfItem(at: url)
        try journal.expect("note: lost a version; has local contents: false")
        try journal.expect("note: lost a version; has local contents: false")
        journal.say("  others: \(NSFileVersion.otherVersionsOfItem(at: url)?.count ?? -1)")
        journal.say("  the note: \(try neighbour.read(url))")
    }
}

RunJournal.run("VersionBrowser") { journal, directory in
    let rehearsal = try Rehearsal(journal: journal, directory: directory)
    try rehearsal.lookingAround()
    let version = try rehearsal.adding()
    try rehearsal.moving()
    try rehearsal.finding(version)
    try rehearsal.goingBack(to: version)
    try rehearsal.removing(version)
    NSFileCoordinator.removeFilePresenter(rehearsal.note)
    NSFileCoordinator.removeFilePresenter(rehearsal.list)
    journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
}
