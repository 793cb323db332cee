// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// If a name is missing in the middle of a save, other programs wait for the name.
    @Suite struct SaveTests {
        static let lookups = 1_000_000

        @Test(
            "While a program saves a presented document in a loop, no save fails and other programs never miss its name",
            arguments: Saver.all)
        func lookupsFindTheNameDuringSavesInALoop(saver: Saver) throws {
            let plain = try Lab.freshDirectory("plain")
            try saver.prepare(plain)
            print("\(saver.name) on a plain directory: \(try watch(saver, in: plain, lookups: 0))")
            try MountedDirectory.with(prepare: saver.prepare) { mount in
                // The presenter implements only questions about deletions. A save does not delete the document.
                let presenter = try TruceCommand.start(
                    "present", mount.path + "/" + saver.document, "--on-delete", "true")
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.text.contains("presenting")
                }
                // The scheduler decides how often a watcher looks up the name in the middle of a save. In the middle of very
                // fast saves, a look-up hardly ever happens.
                let figures = try watch(saver, in: mount.path, lookups: Self.lookups) {
                    let counters = try mount.status().counters
                    return counters.waited + counters.bounced > 0
                }
                presenter.send(SIGTERM)
                _ = try presenter.wait(within: .seconds(20))
                let status = try mount.status()
                print("\(saver.name) on the mount: \(figures)")
                print("   \(status.counters.summary)")

                #expect(figures.lookups >= Self.lookups)
                // For a program that reads the attributes of a document, ESTALE is as bad as ENOENT.
                #expect((figures.missing + figures.stale) * 1_000_000 < figures.lookups)
                #expect(figures.unlisted == 0, "of \(figures.listings) listings")
                #expect(figures.failures == 0, "\(figures.lastErrors)")
                // A reader that was idle for 250 ms between its open and its first read has let the writer go ahead. This
                // reader can then find an empty file, as in a plain directory.
                #expect(figures.empty <= status.counters.yielded)
                let below = try FileContents.text(of: mount.below + "/" + saver.document)
                #expect(below == saver.expected(afterRuns: figures.runs))
                #expect(status.counters.waited + status.counters.bounced > 0)
                try mount.checkDataPath()
                checkForcedSteps(status)
            }
        }

        /// Runs the saver at least once, and until the document was looked up `lookups` times and `isEnough` returns true.
        private func watch(
            _ saver: Saver, in directory: String, lookups: Int, until isEnough: () throws -> Bool = { true }
        ) throws -> Figures {
            let board = try CounterTable()
            let file = directory + "/" + saver.document
            let slash = file.lastIndex(of: "/") ?? file.startIndex
            let (folder, name) = (String(file[..<slash]), String(file[slash...].dropFirst()))
            let watchers = [
                try Worker(board, row: 1, "look", file), try Worker(board, row: 2, "scan", file),
                try Worker(board, row: 3, "list", folder, name),
            ]
            for worker in watchers { try worker.waitUntilReady() }
            var runs = 0
            let (_, took) = try timed {
                repeat {
                    try saver.save(directory)
                    runs += 1
                } while try runs < Saver.mostRuns
                    && (watchers[0].rounds + watchers[1].rounds < lookups || !isEnough())
            }
            board.stop()
            for worker in watchers { try worker.finish() }
            return Figures(runs: runs, took: took, watchers: watchers)
        }
    }

    /// The numbers that the watchers count while a program saves: how often each result of a look-up or listing occurred.
    struct Figures: CustomStringConvertible {
        let runs: Int
        let took: Duration
        let watchers: [Worker]

        /// The number of look-ups of the name, by calls of stat and of open.
        var lookups: Int { watchers[0].rounds + watchers[1].rounds }
        var missing: Int { watchers[0][.missing] + watchers[1][.missing] }
        var stale: Int { watchers[0][.stale] + watchers[1][.stale] }
        var listings: Int { watchers[2].rounds }
        /// The number of listings in which the document's name was missing.
        var unlisted: Int { watchers[2][.missing] + watchers[2][.stale] }
        var failures: Int { sum { $0.failures } }
        var empty: Int { watchers[1][.empty] }
        var lastErrors: [String] { watchers.map(\.lastError) }

        private func sum(_ number: (Worker) -> Int) -> Int { watchers.map(number).reduce(0, +) }

        var description: String {
            """
            \(runs * Saver.saves) saves in \(took.milliseconds) ms under \(lookups) look-ups \
            (\(watchers[1].rounds) of them opens): \(missing) ENOENT, \(stale) ESTALE, \(failures) other errors, \
            \(empty) empty reads; \(listings) listings, \(unlisted) without the name
            """
        }
    }
}

/// A program that saves a document again and again, each time with an additional line.
struct Saver: Sendable, CustomTestStringConvertible {
    /// The number of saves in one run.
    static let saves = 40
    static let mostRuns = 500

    let name: String
    var document = "document.txt"
    var prepare: @Sendable (_ directory: String) throws -> Void = { directory in
        try FileContents.write(Saver.heading, to: directory + "/document.txt")
    }
    /// Runs the saver once. Throws if a save failed.
    let save: @Sendable (_ directory: String) throws -> Void
    var isAppending = true

    static let heading = "a document\n"
    var testDescription: String { name }

    func expected(afterRuns runs: Int) -> String {
        guard isAppending else { return Self.checkedOut }
        let run = (0..<Self.saves).map { "save \($0)\n" }.joined()
        return Self.heading + String(repeating: run, count: runs)
    }

    static let all = [vim, vimInPlace, neovim, emacs, nano, sed, git]

    static let loop = "+for i in range(\(saves)) | call append('$', 'save ' . i) | write | endfor"

    static let vim = Saver(name: "vim, renaming") { directory in
        try Program("vim").run(
            "-N", "-u", "NONE", "-i", "NONE", "-es", "+set backupcopy=no", loop, "+quit",
            "document.txt", at: directory)
    }

    static let vimInPlace = Saver(name: "vim, copying") { directory in
        try Program("vim").run(
            "-N", "-u", "NONE", "-i", "NONE", "-es", "+set backupcopy=yes", loop, "+quit",
            "document.txt", at: directory)
    }

    static let neovim = Saver(name: "Neovim") { directory in
        try Program("nvim").run(
            "--headless", "-u", "NONE", "-i", "NONE", "-es", loop, "+quit", "document.txt",
            at: directory)
    }

    static let emacs = Saver(name: "Emacs") { directory in
        // Emacs makes a backup once per buffer. Each save uses a new buffer, as for a user that saves for days.
        let form = """
            (progn (find-file "document.txt")
              (dotimes (i \(saves))
                (goto-char (point-max))
                (insert (format "save %d\\n" i))
                (setq buffer-backed-up nil)
                (save-buffer)))
            """
        try Program("emacs").run("--batch", "-Q", "--eval", form, at: directory)
    }

    static let nano = Saver(name: "nano") { directory in
        let editor = try Script(
            "script --quiet --return --command 'nano --ignorercfiles --nonewlines +100000 document.txt' /dev/null"
        ).start(at: directory, with: ["TERM": "xterm"], input: .keyboard)
        // Before nano has set up its terminal, Control-S would stop the output.
        try eventually(within: .seconds(20), "nano's screen") { editor.text.contains("GNU nano") }
        for number in 0..<saves {
            let before = editor.text.count(of: "Wrote ")
            try editor.type("save \(number)\r\u{13}")
            try eventually(within: .seconds(20), "nano to say that it wrote\n\(editor.text.suffix(500))") {
                editor.text.count(of: "Wrote ") > before
            }
        }
        try editor.type("\u{18}")
        try editor.wait(within: .seconds(20)).requireSuccess()
    }

    static let sed = Saver(name: "sed -i") { directory in
        try Script("for ((i = 0; i < $1; i++)); do sed -i \"\\$a save $i\" document.txt; done").run(
            String(saves), at: directory)
    }

    static let checkedOut = heading + "another line of it\n"

    static let git = Saver(
        name: "git checkout", document: "project/document.txt",
        prepare: { directory in
            try Script(
                """
                mkdir project
                cd project
                git init --quiet --initial-branch=first
                git config user.name Ada
                git config user.email ada@example.org
                printf 'a document\\n' >document.txt
                git add document.txt
                git commit --quiet --message=First
                git checkout --quiet -b second
                printf 'another line of it\\n' >>document.txt
                git commit --quiet --all --message=Second
                """
            ).run(at: directory)
        },
        save: { directory in
            try Script(
                "for ((i = 0; i < $1; i += 2)); do git checkout --quiet first; git checkout --quiet second; done"
            ).run(String(saves), at: directory + "/project")
            try Program("git").run("diff", "--exit-code", at: directory + "/project")
        }, isAppending: false)
}

extension String {
    func count(of part: String) -> Int { ranges(of: part).count }
}
