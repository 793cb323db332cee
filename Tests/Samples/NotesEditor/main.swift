// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// The scenes of this sample: a note and another program use one file. The object `neighbour` acts for all other programs.
struct Rehearsal {
    static let never: TimeInterval = 3600

    let journal: RunJournal
    let directory: URL
    let neighbour = OtherProgram()

    func url(_ name: String) -> URL { directory.appendingPathComponent(name) }

    func note(_ name: String, autosaveDelay: TimeInterval = never) -> NoteDocument {
        NoteDocument(autosaveDelay: autosaveDelay) { [journal] in journal.note("\(name): \($0)") }
    }

    func opened(
        _ name: String, _ text: String, autosaveDelay: TimeInterval = never
    ) throws -> NoteDocument {
        try neighbour.write(text, to: url(name), options: .forReplacing)
        let note = note(name, autosaveDelay: autosaveDelay)
        try note.open(url(name))
        return note
    }

    /// Waits until the note has relinquished its file to a writer and has reacquired it.
    func expectWriter(_ name: String) throws {
        try journal.expect("\(name): relinquished to a writer")
        try journal.expect("\(name): reacquired from a writer")
    }

    func untitled() throws {
        journal.say("a note without a file")
        let note = note("untitled")
        note.openUntitled()
        note.edit("milk")
        try note.saveAs(url("Shopping.txt"))
        journal.say("  it is saved as \(note.presentedItemURL?.lastPathComponent ?? "nothing")")
        try neighbour.write("milk, bread", to: url("Shopping.txt"))
        try expectWriter("untitled")
        try journal.expect("untitled: read again: milk, bread")
        note.close()
    }

    func autosave() throws {
        journal.say("a note that saves itself")
        let note = try opened("Diary.txt", "Monday", autosaveDelay: 0.2)
        note.edit("Monday: rain")
        try journal.expect("Diary.txt: saved itself")
        journal.say("  on the disk: \(try neighbour.read(url("Diary.txt"), options: .withoutChanges))")
        note.close()
    }

    func askedToSave() throws {
        journal.say("a note that is asked to save")
        let note = try opened("Letter.txt", "Dear")
        note.edit("Dear friend")
        let text = try journal.finish("a reader") { [neighbour, url] in
            try neighbour.read(url("Letter.txt"))
        }
        journal.say("  the reader has: \(text)")
        try journal.expect("Letter.txt: relinquished to a reader")
        try journal.expect("Letter.txt: saved on request")
        try journal.expect("Letter.txt: reacquired from a reader")

        journal.say("a note that another program writes, too")
        note.edit("Dear friends")
        try neighbour.write("Dear all", to: url("Letter.txt"))
        try expectWriter("Letter.txt")
        try journal.expect("Letter.txt: was changed by another program and has unsaved edits")
        try note.revert()
        journal.say("  reverted: \(note.text), unsaved: \(note.hasUnsavedChanges)")
        note.close()
    }

    func moving() throws {
        journal.say("a note that is moved")
        let note = try opened("Draft.txt", "a plan")
        try neighbour.move(url("Draft.txt"), to: url("Plan.txt"))
        try journal.expect("Draft.txt: moved to Plan.txt")
        try expectWriter("Draft.txt")

        journal.say("a note that is renamed by its editor")
        try note.rename(to: "Final plan.txt")
        note.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
        try journal.refute("Draft.txt: moved to Final plan.txt")
        note.edit("the plan")
        try note.save()
        journal.say("  on the disk: \(try neighbour.read(url("Final plan.txt"), options: .withoutChanges))")
        try journal.expect("Draft.txt: relinquished to a reader")
        try journal.expect("Draft.txt: reacquired from a reader")

        journal.say("a note that is made read-only")
        try note.setReadOnly(true)
        let attributes = try FileManager.default.attributesOfItem(atPath: url("Final plan.txt").path)
        let permissions = (attributes[.posixPermissions] as? NSNumber)?.intValue ?? 0
        journal.say("  its permissions: \(String(permissions, radix: 8))")
        try note.setReadOnly(false)
        note.close()
    }

    func savingOver() throws {
        journal.say("a note that is saved over another one")
        let other = try opened("Old.txt", "old")
        let note = try opened("New.txt", "new")
        try journal.finish("Save As") { [url] in try note.saveAs(url("Old.txt")) }
        try journal.expect("Old.txt: relinquished to a writer")
        try journal.expect("Old.txt: closed, because its file is to be deleted")
        journal.say("  the other is open: \(other.isOpen)")
        try neighbour.write("newer", to: url("Old.txt"))
        try expectWriter("New.txt")
        try journal.expect("New.txt: read again: newer")
        note.close()
    }

    func losingPatience() throws {
        journal.say("a note that is read again in vain")
        let note = try opened("Busy.txt", "busy")
        try neighbour.hold(url("Busy.txt")) {
            let reading = EventualResult<String>("a reader that was cancelled")
            let patient = PatientRead(url("Busy.txt"), for: note)
            patient.start { reading.settle($0) }
            patient.cancel()
            do {
                throw UnexpectedEvent(what: "read '\(try reading.value())'")
            } catch let error as NSError where error.domain == NSCocoaErrorDomain {
                journal.say("  the reader was cancelled: \(error.code == NSUserCancelledError)")
            }
        }
        try expectWriter("Busy.txt")
        note.close()
    }

    func deleting() throws {
        journal.say("a note whose file is deleted")
        let note = try opened("Gone.txt", "soon gone")
        note.edit("nearly gone")
        try neighbour.delete(url("Gone.txt"))
        try journal.expect("Gone.txt: relinquished to a writer")
        try journal.expect("Gone.txt: closed, because its file is to be deleted")
        journal.say("  it is open: \(note.isOpen)")

        journal.say("a note that deletes its file")
        let own = try opened("Own.txt", "my own")
        try own.delete()
        journal.say("  the file exists: \(FileManager.default.fileExists(atPath: url("Own.txt").path))")
    }
}

RunJournal.run("NotesEditor") { journal, directory in
    let rehearsal = Rehearsal(journal: journal, directory: directory)
    try rehearsal.untitled()
    try rehearsal.autosave()
    try rehearsal.askedToSave()
    try rehearsal.moving()
    try rehearsal.savingOver()
    try rehearsal.losingPatience()
    try rehearsal.deleting()
    journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
}
