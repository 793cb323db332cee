// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport

/// A step of a program that destroys contents, before which the daemon preserves these contents.
enum KillScene: String, CaseIterable, Sendable {
    case truncatingOpen = "an open that truncates"
    case overwritingOpen = "an open that overwrites"
    case appendingOpen = "an open that appends beside a writer"
    case truncation = "a truncation to nothing"
    case shortening = "a truncation to seven bytes"
    case replacement = "a rename over the document"
    case removal = "a removal"
    case unansweredReplacement = "a rename over the document that a silent presenter has"
    case unansweredOpen = "an open that truncates the document that a silent presenter has"
    case unansweredReplacementOfLinks = "a rename over a document with two names that a silent presenter has"
    case backupSave = "a save with a backup that is removed"
    case exchange = "a save that exchanges two names"
    case secondName = "an open by the second name of a file that was preserved by a link"
    case suspendedWriter = "a write of a suspended writer over what another program left"
    case unseenTruncation = "a save by truncation over contents that the program has not read"
    case unseenReplacement = "a rename over contents that the program has not read"
    case unseenWrite = "a first write into contents that the program has not read"
    case harmlessTruncation = "a save by truncation of the same contents"
    case harmlessReplacement = "a rename of the same contents over the document"
    case mergedTruncation = "a save by truncation that is merged"
    case mergedReplacement = "a rename over the document that is merged"

    var options: String {
        switch self {
        case .suspendedWriter: "wait=20s,hold=50ms,idle=20ms"
        default: "wait=50ms,hold=60s,idle=60s,relinquish=100ms,save=100ms,deletion=100ms"
        }
    }

    /// Whether a presenter that answers no question has the document.
    private var isPresented: Bool {
        switch self {
        case .unansweredReplacement, .unansweredOpen, .unansweredReplacementOfLinks, .backupSave, .exchange:
            true
        default: false
        }
    }

    /// Whether the step replaces contents that its program has not read. The daemon then makes a suspected version, and
    /// compares it after the save. If the program has saved the same contents, the version is dropped.
    ///
    /// The daemon brings a suspected version to the disk a moment later (D230). So a power cut can lose it, but a kill of the
    /// daemon must not: neither its contents nor its path.
    var isUnseen: Bool {
        switch self {
        case .unseenTruncation, .unseenReplacement, .unseenWrite, .harmlessTruncation, .harmlessReplacement,
            .mergedTruncation, .mergedReplacement:
            true
        default: false
        }
    }

    /// Whether the changes of both programs are merged. A merge is written in place, so a kill can leave a mixture of two texts
    /// in the file. The next daemon completes the merge before it serves requests (D281).
    var isMerged: Bool { self == .mergedTruncation || self == .mergedReplacement }

    private var hasTwoNames: Bool { self == .unansweredReplacementOfLinks || self == .secondName }

    /// Makes the files of a round around the mount.
    func makeFiles(_ round: KillRound, in source: String) throws {
        try FileContents.write(
            isMerged ? round.text() : round.written, to: "\(source)/\(round.document)")
        let others =
            isMerged ? round.saved : self == .harmlessReplacement ? round.old : round.new
        try FileContents.write(others, to: "\(source)/\(round.other)")
        if isMerged { try FileContents.write(round.shortened, to: "\(source)/\(round.secondName)") }
        if hasTwoNames {
            try Program("ln").run("\(source)/\(round.document)", "\(source)/\(round.secondName)")
        }
    }

    /// Takes the steps after which the document has contents that must not be lost. Returns the presenter, if the scene has one.
    func prepare(_ round: KillRound, _ stage: KillStage) throws -> RunningProgram? {
        let document = "\(stage.path)/\(round.document)"
        if isPresented {
            // The contents are in the document before the presenter comes. A presenter that is stopped answers no question.
            let writer = try ScriptedProcess()
            try writer.must("open", "h", document, "O_WRONLY")
            try writer.must("place", "h", round.mark)
            try writer.must("close", "h")
            let presenter = try TruceCommand.start("present", document, "--json")
            try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
                presenter.errorText.contains("presenting")
            }
            presenter.send(SIGSTOP)
            return presenter
        }
        if isMerged {
            // An open is a sighting of the contents. An actor cannot answer with several lines.
            try stage.other.must("open", "r", document, "O_RDONLY")
            try stage.other.must("close", "r")
        } else if isUnseen {
            try stage.other.must("read", document)
        }
        try stage.holder.must("open", "h", document, "O_WRONLY" + (isMerged ? "|O_TRUNC" : ""))
        if isMerged {
            let copy = "\(stage.path)/\(round.secondName)"
            try stage.holder.must("copy", "h", copy)
            try stage.holder.must("unlink", copy)
        } else {
            try stage.holder.must("place", "h", round.mark)
        }
        if isUnseen { try stage.holder.must("close", "h") }
        if self == .secondName {
            try stage.other.must("rename", "\(stage.path)/\(round.other)", document)
            try stage.holder.must("close", "h")
        }
        return nil
    }

    /// The system calls of the step, each with the program that makes it.
    func calls(_ round: KillRound, _ stage: KillStage) -> [(ScriptedProcess, [String])] {
        let (document, other) = ("\(stage.path)/\(round.document)", "\(stage.path)/\(round.other)")
        func byOther(_ calls: [String]...) -> [(ScriptedProcess, [String])] {
            calls.map { (stage.other, $0) }
        }
        switch self {
        case .truncatingOpen, .unansweredOpen: return byOther(["open", "w", document, "O_WRONLY|O_TRUNC"])
        case .overwritingOpen:
            return byOther(["open", "w", document, "O_WRONLY"], ["place", "w", round.later])
        case .appendingOpen:
            return byOther(["open", "w", document, "O_WRONLY|O_APPEND"], ["write", "w", round.later])
        case .truncation: return byOther(["truncate", document, "0"])
        case .shortening: return byOther(["truncate", document, "7"])
        case .unseenTruncation:
            return byOther(
                ["open", "w", document, "O_WRONLY|O_TRUNC"], ["write", "w", round.new], ["close", "w"])
        case .harmlessTruncation:
            return byOther(
                ["open", "w", document, "O_WRONLY|O_TRUNC"], ["write", "w", round.old], ["close", "w"])
        case .mergedTruncation:
            return byOther(
                ["open", "w", document, "O_WRONLY|O_TRUNC"], ["copy", "w", other], ["unlink", other],
                ["close", "w"])
        case .unseenWrite:
            return byOther(["open", "w", document, "O_RDWR"], ["place", "w", round.later], ["close", "w"])
        case .replacement, .unansweredReplacement, .unansweredReplacementOfLinks, .unseenReplacement,
            .harmlessReplacement, .mergedReplacement:
            return byOther(["rename", other, document])
        case .removal: return byOther(["unlink", document])
        case .backupSave:
            return byOther(
                ["rename", document, document + "~"], ["put", document, round.later],
                ["unlink", document + "~"])
        case .exchange: return byOther(["exchange", other, document], ["unlink", other])
        case .secondName:
            return byOther(["open", "w", "\(stage.path)/\(round.secondName)", "O_WRONLY|O_TRUNC"])
        case .suspendedWriter:
            return byOther(
                ["open", "w", document, "O_RDWR|O_TRUNC"], ["write", "w", round.new], ["close", "w"])
                + [(stage.holder, ["place", "h", round.later])]
        }
    }

    /// The contents that must still exist after so many calls of the step have succeeded: in a file, or as a version.
    func endangered(_ round: KillRound, after succeeded: Int) -> [String] {
        switch self {
        // What the other program has written counts when its close has returned.
        case .suspendedWriter where succeeded >= 3: [round.old, round.new]
        case .mergedTruncation where succeeded >= 4, .mergedReplacement: [round.shortened, round.saved]
        case .mergedTruncation: [round.shortened]
        default: [round.old]
        }
    }

    /// All contents that a file or a version of the round may have: contents that were complete at some moment.
    func whole(_ round: KillRound) -> Set<String> {
        let over = round.later + round.old.dropFirst(round.later.count)
        let basic: Set<String> = [round.old, round.new, "", round.later]
        return switch self {
        case .overwritingOpen, .unseenWrite: basic.union([String(over)])
        case .appendingOpen: basic.union([round.old + round.later])
        case .shortening: basic.union([String(round.old.prefix(7))])
        case .suspendedWriter: basic.union([round.later + round.new.dropFirst(round.later.count)])
        case .mergedTruncation, .mergedReplacement:
            ["", round.text(), round.shortened, round.saved, round.text(isShort: true, end: round.later)]
        default: basic
        }
    }
}

/// The names and contents of one round, in which the daemon is killed once.
struct KillRound {
    let number: Int
    var document: String { "document-\(number)" }
    var other: String { "new-\(number)" }
    var secondName: String { "second-\(number)" }
    /// All names of the round that can have the old contents.
    var names: [String] { [document, other, secondName, document + "~"] }

    /// The contents before the writer writes. They are so long that a copy takes several pages. They are one line, because a
    /// command of an actor is one line.
    var written: String { String(repeating: "words of round \(number) ", count: 8000) }
    /// The text that the writer writes to the beginning of the document.
    var mark: String { "held" }
    /// The contents that must not be lost.
    var old: String { mark + written.dropFirst(mark.count) }
    /// The contents that another program saves. They are one line, too.
    var new: String { String(repeating: "new words of round \(number) ", count: 6000) }
    var later: String { "later" }

    // The texts of a merge have lines. The first program removes half of them, and the second program changes the last line. So
    // the merged text is shorter than the text that it replaces, and a half-written merge is none of these texts.
    func text(isShort: Bool = false, end: String = "end") -> String {
        "first\n" + (isShort ? 1000..<2000 : 0..<2000).map { "line \($0) of round \(number)\n" }.joined()
            + end
            + "\n"
    }
    /// The text with which the first program leaves the document.
    var shortened: String { text(isShort: true) }
    /// The text that the second program saves.
    var saved: String { text(end: later) }
}

/// The programs of a scene, and the directory over which Truce is mounted.
struct KillStage {
    let path: String
    let holder: ScriptedProcess
    let other: ScriptedProcess
}
