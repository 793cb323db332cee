// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

/// Returns the text for a duration, such as `1.2 s`.
func durationText(_ milliseconds: UInt64) -> String {
    milliseconds < 60_000
        ? "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
        : "\(milliseconds / 60_000) min \(milliseconds % 60_000 / 1000) s"
}

extension ProcessDescriptionForm {
    /// The name and process ID of the program, as text. The process ID 0 means that the program is unknown.
    var text: String {
        if pid == 0 { return "an unknown program" }
        return "\(program.printable) (pid \(pid))" + (name.map { " as '\($0.printable)'" } ?? "")
    }
}

extension CoordinationSnapshotForm {
    /// Returns lines that say why a program cannot use a path now: the waiting claims and what they wait for, the held
    /// claims, and the presenters.
    func explanation(of path: String) -> [String] {
        let waiting = claims.filter { $0.state == "waiting" }
        let others = claims.filter { $0.state != "waiting" }
        var lines = waiting.flatMap(\.waitingLines)
        lines += others.map(\.holdingLine)
        lines += presenters.map(\.line)
        lines += (delays ?? []).map(\.text)
        if lines.isEmpty { lines = ["No program uses '\(path)' or waits for it."] }
        if isTruncated { lines.append("(more; these are the oldest)") }
        return lines
    }
}

extension ClaimForm {
    /// The kind of access as a verb, for a sentence.
    private var purpose: String {
        switch access {
        case "read": "read"
        case "updating": "update"
        case "forMerging": "change"
        case "forDeleting": "delete"
        case "forMoving": "move"
        case "forReplacing": "replace"
        default: access.printable
        }
    }

    /// The items of the claim, as a part of a sentence: `'a' and 'b'`.
    private var items: String {
        ([path] + (others ?? []).map(\.path.path)).map { "'\($0.printable)'" }.joined(separator: " and ")
    }

    /// Lines about the waiting claim. The first line is about the claim itself. Each further line says for which claim the
    /// claim of the previous line waits.
    fileprivate var waitingLines: [String] {
        let first = "\(actor.text) has waited for \(durationText(age)) to \(purpose) \(items)"
        return [reasons.isEmpty ? first : first + ":"]
            + reasons.enumerated().map { String(repeating: "  ", count: $0 + 1) + $1.printable }
    }

    fileprivate var holdingLine: String {
        let how = suspension.map { " and is suspended (\($0.printable))" } ?? ""
        let what = others == nil ? "it" : "them"
        let why = exceeded.map { ": " + $0.reason } ?? ""
        return "\(actor.text) has had \(items) for \(durationText(age)) to \(purpose) \(what)\(how)\(why)"
    }
}

extension PresenterForm {
    fileprivate var line: String {
        var line = "\(actor.text) presents '\(path.printable)'"
        if isUnsaved ?? false { line += " with unsaved changes" }
        if let last = owed.min(by: { $0.age < $1.age }) {
            line +=
                ", asked \(last.requestText) \(durationText(last.age)) ago because of \(last.actor.text), "
            line += "\(durationText(last.left)) left to answer"
        }
        return line + (isDemoted ? "; it did not answer, and is not asked again until it answers" : "")
    }
}

extension UnansweredQuestionForm {
    fileprivate var requestText: String {
        switch request {
        case "save": "to save"
        case "accommodateDeletion": "to agree to its deletion"
        case "accommodateSubitemDeletion": "to agree to a deletion in it"
        case "relinquishToReader": "to relinquish it to a reader"
        case "relinquishToWriter": "to relinquish it to a writer"
        default: "for \(request.printable)"
        }
    }
}

/// The table that `truce ps` prints.
struct CensusTable {
    private var rows: [[String]] = [["PID", "USER", "PROGRAM", "STATE", "ACCESS", "PATH"]]

    mutating func add(_ snapshot: CoordinationSnapshotForm, below mountpoint: String) {
        func whole(_ path: String) -> String { path.isEmpty ? mountpoint : "\(mountpoint)/\(path)" }
        for claim in snapshot.claims {
            let state = claim.suspension.map { "\(claim.state) (\($0))" } ?? claim.state
            add(claim.actor, state, claim.access, whole(claim.path))
            for other in claim.others ?? [] {
                add(claim.actor, state, other.access.name, whole(other.path.path))
            }
        }
        for presenter in snapshot.presenters {
            let owed =
                presenter.owed.isEmpty ? "-" : "owes " + presenter.owed.map(\.request).joined(separator: "+")
            let state = (presenter.isUnsaved ?? false) ? "presents (unsaved)" : "presents"
            add(presenter.actor, state, owed, whole(presenter.path))
        }
        if snapshot.isTruncated { rows.append(["", "", "", "", "", "(more in \(mountpoint))"]) }
    }

    private mutating func add(
        _ actor: ProcessDescriptionForm, _ state: String, _ access: String, _ path: String
    ) {
        let user = actor.user.map(UserName.of) ?? "-"
        let pid = actor.pid == 0 ? "-" : String(actor.pid)
        let program = actor.program.isEmpty ? "-" : actor.program
        rows.append([pid, user, program, state, access, path].map(\.printable))
    }

    /// The rows of the table as lines. All columns but the last are as wide as their longest cell.
    var lines: [String] {
        let widths = (0..<5).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            return (cells + [row[5]]).joined(separator: "  ")
        }
    }
}

enum UserName {
    /// Returns the name of a user. If the user has no name, returns the user's number.
    static func of(_ user: UInt32) -> String {
        guard let entry = getpwuid(user), let name = entry.pointee.pw_name else { return String(user) }
        return String(cString: name)
    }
}
