// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import SampleRun

/// The scenes of this sample: a program browses a folder, while other programs work in the folder. The object `neighbour` acts
/// for these other programs.
struct Rehearsal {
    let journal: RunJournal
    let shelf: URL
    let library: URL
    let neighbour = OtherProgram()

    init(journal: RunJournal, directory: URL) {
        self.journal = journal
        shelf = directory.appendingPathComponent("Shelf", isDirectory: true)
        library = directory.appendingPathComponent("Library", isDirectory: true)
    }

    func furnish() throws {
        let files = FileManager.default
        for folder in ["sub", "Album.rtfd"] {
            try files.createDirectory(
                at: shelf.appendingPathComponent(folder), withIntermediateDirectories: true)
        }
        for (name, text) in [
            ("a.txt", "first line\nsecond line\n"), ("film.mov", "a film"), ("film.srt", "Good evening."),
            ("Album.rtfd/photo.png", "a photo"), ("Album.rtfd/text.rtf", "a text"),
        ] {
            try Data(text.utf8).write(to: shelf.appendingPathComponent(name))
        }
        try files.createSymbolicLink(
            atPath: shelf.appendingPathComponent("link").path, withDestinationPath: "a.txt")
    }

    func browsing(_ browser: FolderBrowser) throws {
        try browser.start()
        journal.say("in the folder: \(browser.contents.joined(separator: " "))")

        journal.say("a neighbour works in the folder")
        try neighbour.write("new", to: shelf.appendingPathComponent("new.txt"), options: .forReplacing)
        try journal.expect("browser: appeared: new.txt")
        try neighbour.write("newer", to: shelf.appendingPathComponent("new.txt"))
        try journal.expect("browser: changed: new.txt")
        try neighbour.write("deep", to: shelf.appendingPathComponent("sub/deep.txt"), options: .forReplacing)
        try journal.expect("browser: appeared: sub/deep.txt")
        try neighbour.move(
            shelf.appendingPathComponent("new.txt"), to: shelf.appendingPathComponent("sub/moved.txt"))
        try journal.expect("browser: moved: new.txt to sub/moved.txt")
        try neighbour.delete(shelf.appendingPathComponent("sub/moved.txt"))
        try journal.expect("browser: gone: sub/moved.txt")

        journal.say("a neighbour moves the folder")
        try neighbour.move(shelf, to: library)
        try journal.expect("browser: is now Library")
        try neighbour.write("first line\nthird line\n", to: library.appendingPathComponent("a.txt"))
        try journal.expect("browser: changed: a.txt")
        let shown = browser.contents
        try browser.refresh()
        journal.say("  the folder is as it was shown: \(shown == browser.contents)")
    }

    func previews() throws {
        journal.say("previews")
        let url = library.appendingPathComponent("a.txt")
        let document = OpenDocument(url: url, unsaved: "unsaved line\n")
        NSFileCoordinator.addFilePresenter(document)
        journal.say("  without changes: \(try Preview.firstLine(of: url)), saved: \(document.isSaved)")
        let (name, text) = try Preview.target(of: library.appendingPathComponent("link"))
        journal.say("  the link leads to \(name): \(text.dropLast()), saved: \(document.isSaved)")
        NSFileCoordinator.removeFilePresenter(document)
        journal.say(
            "  the link itself: \(try Preview.destination(of: library.appendingPathComponent("link")))")
        let film = library.appendingPathComponent("film.mov")
        journal.say("  the film: \(try Preview.details(of: film).size) bytes")
        let subtitles = Subtitles(of: film)
        journal.say("  with it comes \(subtitles.presentedItemURL?.lastPathComponent ?? "nothing"),")
        journal.say("  and says: \(try subtitles.text())")
    }

    func package() throws {
        journal.say("a package")
        let album = library.appendingPathComponent("Album.rtfd", isDirectory: true)
        let inside = FolderBrowser(folder: album) { [journal] in journal.note("album: \($0)") }
        let icon = PackageIcon(package: album) { [journal] in journal.note("icon: \($0)") }
        try inside.start()
        NSFileCoordinator.addFilePresenter(icon)
        journal.say("  in it: \(inside.contents.joined(separator: " "))")
        let details = try Preview.details(of: album)
        journal.say("  it is a folder: \(details.isFolder)")
        try neighbour.write("a better text", to: album.appendingPathComponent("text.rtf"))
        try journal.expect("album: changed: text.rtf")
        try journal.expect("icon: drawn again")
        try neighbour.delete(album.appendingPathComponent("photo.png"))
        try journal.expect("album: lets go of photo.png")
        try journal.expect("icon: asked about photo.png")
        inside.stop()
        NSFileCoordinator.removeFilePresenter(icon)
    }

    func presenters(_ browser: FolderBrowser) throws {
        let isThere = NSFileCoordinator.filePresenters.contains { $0 === browser }
        journal.say("the browser is a presenter: \(isThere), of \(NSFileCoordinator.filePresenters.count)")
        try neighbour.delete(library)
        try journal.expect("browser: closed")
        journal.say("presenters left: \(NSFileCoordinator.filePresenters.count)")
    }
}

RunJournal.run("FolderBrowser") { journal, directory in
    let rehearsal = Rehearsal(journal: journal, directory: directory)
    try rehearsal.furnish()
    let browser = FolderBrowser(folder: rehearsal.shelf) { journal.note("browser: \($0)") }
    try rehearsal.browsing(browser)
    try rehearsal.previews()
    try rehearsal.package()
    try rehearsal.presenters(browser)
}
