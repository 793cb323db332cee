// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// The scenes of this sample: two documents of one program show the same file. The object `neighbour` acts for all other
/// programs.
struct Rehearsal {
    static let rounds = 20

    let journal: RunJournal
    let url: URL
    let neighbour = OtherProgram()
    let classic: ClassicDocument
    let modern: ModernDocument

    init(journal: RunJournal, directory: URL) throws {
        self.journal = journal
        url = directory.appendingPathComponent("shared.txt")
        classic = ClassicDocument(url: url) { journal.note("classic: \($0)") }
        modern = ModernDocument(url: url) { journal.note("modern: \($0)") }
        try neighbour.write("at first", to: url, options: .forReplacing)
        try classic.open()
        try modern.open()
        journal.say("presenters: \(NSFileCoordinator.filePresenters.count)")
    }

    /// Makes both documents read after a change. Each document reads on the queue on which it must answer the other document's
    /// read.
    func trap() throws {
        journal.say("a neighbour writes, and both documents read at once")
        for round in 1...Self.rounds {
            try journal.finish("the neighbour") { [neighbour, url] in
                try neighbour.write("round \(round)", to: url)
            }
            for name in ["classic", "modern"] {
                try journal.expect("\(name): relinquished")
                try journal.expect("\(name): has read 'round \(round)'")
                try journal.expect("\(name): reacquired")
            }
        }
    }

    func linkedWriter() throws {
        journal.say("one document is saved")
        classic.edit("by the classic one")
        try journal.finish("a save") { [classic] in try classic.save() }
        try journal.expect("modern: relinquished")
        try journal.expect("modern: has read 'by the classic one'")
        try journal.expect("modern: reacquired")
        classic.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
        try journal.refute("classic: relinquished")
        try journal.refute("classic: has read 'by the classic one'")
        journal.say("  and is not told of it")
    }

    /// Makes the other document save on a different thread from the thread on which it was asked to save.
    func askedToSave() throws {
        journal.say("the other one is asked to save by a reader")
        modern.edit("by the modern one")
        let text = try journal.finish("a reader") { [neighbour, url] in try neighbour.read(url) }
        journal.say("  the reader has: \(text)")
        try journal.expect("modern: saved on request")
        try journal.expect("classic: relinquished")
        try journal.expect("classic: has read 'by the modern one'")
        try journal.expect("classic: reacquired")
    }

    func deletion() throws {
        journal.say("the file is deleted")
        try journal.finish("the deletion") { [neighbour, url] in try neighbour.delete(url) }
        try journal.expect("classic: closed")
        try journal.expect("modern: closed")
        journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
    }
}

RunJournal.run("TwoPresenters") { journal, directory in
    let rehearsal = try Rehearsal(journal: journal, directory: directory)
    try rehearsal.trap()
    try rehearsal.linkedWriter()
    try rehearsal.askedToSave()
    try rehearsal.deletion()
}
