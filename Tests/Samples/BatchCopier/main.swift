// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// The scenes of this sample: a selection of files and folders is copied while some of them are open.
struct Rehearsal {
    let journal: RunJournal
    let source: URL
    let target: URL
    let copier = BatchCopier()
    let neighbour = OtherProgram()

    init(journal: RunJournal, directory: URL) throws {
        self.journal = journal
        source = directory.appendingPathComponent("source", isDirectory: true)
        target = directory.appendingPathComponent("target", isDirectory: true)
        let deep = source.appendingPathComponent("folder/deep", isDirectory: true)
        try FileManager.default.createDirectory(at: deep, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(at: target, withIntermediateDirectories: true)
        for name in ["a.txt", "b.txt", "folder/c.txt", "folder/deep/d.txt"] {
            try Data("\(name) on the disk".utf8).write(to: source.appendingPathComponent(name))
        }
    }

    func open(_ name: String, in folder: URL, unsaved: String? = nil) -> OpenFile {
        OpenFile(url: folder.appendingPathComponent(name), unsavedText: unsaved) { [journal] in
            journal.note("\(name): \($0)")
        }
    }

    func copying() throws {
        journal.say("copying two files and a folder, two of their files being edited")
        let a = open("a.txt", in: source, unsaved: "a.txt, edited")
        let d = open("folder/deep/d.txt", in: source, unsaved: "d.txt, edited")
        let selection = ["a.txt", "b.txt", "folder"].map { source.appendingPathComponent($0) }
        let copied = try copier.copy(selection, into: target)
        for file in copied {
            journal.say("  \(file.name): \(file.error.map { "failed: \($0)" } ?? "copied")")
        }
        for name in ["a.txt", "b.txt", "folder/c.txt", "folder/deep/d.txt"] {
            let copy = target.appendingPathComponent(name)
            journal.say("  the copy: \(try neighbour.read(copy))")
        }
        journal.say("  asked to save: a.txt \(a.saves) times, d.txt \(d.saves) times")
        a.close()
        d.close()
    }

    func replacing() throws {
        journal.say("copying a file over one that is open")
        let old = open("b.txt", in: target)
        let copied = try copier.copy([source.appendingPathComponent("b.txt")], into: target)
        journal.say("  \(copied[0].name): \(copied[0].error.map { "failed: \($0)" } ?? "copied")")
        try journal.expect("b.txt: closed")
        old.close()
    }

    func moving() throws {
        journal.say("moving a file that is open")
        let b = open("b.txt", in: source)
        try copier.move(
            source.appendingPathComponent("b.txt"), to: target.appendingPathComponent("moved.txt"))
        try journal.expect("b.txt: moved to moved.txt")
        journal.say("  it presents \(b.presentedItemURL?.lastPathComponent ?? "nothing")")
        b.close()

        journal.say("moving a folder with a file in it that is open")
        let c = open("folder/c.txt", in: source)
        try copier.move(
            source.appendingPathComponent("folder"), to: target.appendingPathComponent("moved"))
        try journal.expect("folder/c.txt: moved to c.txt")
        let folder = c.presentedItemURL?.deletingLastPathComponent().lastPathComponent
        journal.say("  it is in \(folder ?? "no folder")")
        c.close()
    }
}

RunJournal.run("BatchCopier") { journal, directory in
    let rehearsal = try Rehearsal(journal: journal, directory: directory)
    try rehearsal.copying()
    try rehearsal.replacing()
    try rehearsal.moving()
    journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
}
