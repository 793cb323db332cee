// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The accessor of an access. It waits for orders and executes them, until an order tells it to end.
final class Accessor: Sendable {
    let name: String
    let orderQueue = OrderQueue()
    private let coordinator: FileCoordinator
    private let participant: Participant
    private var place: ParticipantDirectory { participant.place }

    init(_ name: String, by coordinator: FileCoordinator, of participant: Participant) {
        self.name = name
        self.coordinator = coordinator
        self.participant = participant
    }

    func serve(_ urls: [URL], where remark: String = "") {
        began(urls, remark)
        while perform(orderQueue.next()) {}
    }

    func serveInTask(_ urls: [URL]) async throws {
        began(urls, "")
        while true {
            let order = await orderQueue.nextInTask()
            if order[0] == "throw" { throw ParticipantError(words: "thrown by the accessor") }
            guard perform(order) else { return }
        }
    }

    /// Executes orders while the batch accessor of `prepare` runs. The batch ends when the completion handler is called, on any
    /// thread.
    func serve(batch completion: @escaping @Sendable () -> Void) {
        began([], "")
        while true {
            let order = orderQueue.next()
            if order[0] == "complete" {
                DispatchQueue.global().async { [name] in
                    completion()
                    printLine("\(name) completed")
                }
            } else if !perform(order) {
                return
            }
        }
    }

    private func began(_ urls: [URL], _ remark: String) {
        printLine((["\(name) began"] + urls.map(place.name)).joined(separator: " ") + remark)
    }

    /// Executes an order; returns false if the order ends the accessor.
    private func perform(_ order: [String]) -> Bool {
        switch order[0] {
        case "end": return false
        case "begin": participant.begin(order.dropFirst(), isNested: true)
        case "prepare": participant.prepare(order.dropFirst(), isNested: true)
        case "progress":
            FileCoordinator.reportProgress()
            printLine("\(name) progressed")
        default:
            do {
                let answer = try act(order[0], Array(order.dropFirst()))
                printLine("\(name) did" + (answer.isEmpty ? "" : " \(answer)"))
            } catch {
                printLine("\(name) could not: \(shown(error))")
            }
        }
        return true
    }

    private func act(_ verb: String, _ words: [String]) throws -> String {
        let files = FileManager.default
        let url = place.url(words[0])
        switch verb {
        case "put": try Data(words[1].utf8).write(to: url)
        case "save": try Data(words[1].utf8).write(to: url, options: .atomic)
        case "get":
            return files.fileExists(atPath: url.path)
                ? try String(contentsOf: url, encoding: .utf8) : "nothing"
        case "kind": return try kind(of: url)
        case "open": participant.retain(try FileHandle(forReadingFrom: url), as: name)
        case "list": return try files.contentsOfDirectory(atPath: url.path).sorted().joined(separator: " ")
        case "delete": try files.removeItem(at: url)
        case "move":
            coordinator.item(at: url, willMoveTo: place.url(words[1]))
            try files.moveItem(at: url, to: place.url(words[1]))
        case "add-version": _ = try FileVersion.addOfItem(at: url, withContentsOf: url)
        case "resolve":
            for version in FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? [] {
                version.isResolved = true
            }
        case "remove-versions": try FileVersion.removeOtherVersionsOfItem(at: url)
        case "versions":
            let (others, conflicts) = (
                FileVersion.otherVersionsOfItem(at: url),
                FileVersion.unresolvedConflictVersionsOfItem(at: url)
            )
            return "\(others?.count ?? -1), \(conflicts?.count ?? -1) in conflict"
        case "generation":
            let generation = try FileCoordinator.generation(ofItemAt: url)
            let current = FileVersion.currentVersionOfItem(at: url)?.generation
            return current == generation ? generation : "\(generation), but \(current ?? "nothing")"
        case "swap": return swap(url, words[1], words[2])
        case "announce": coordinator.item(at: url, didMoveTo: place.url(words[1]))
        default: preconditionFailure("an accessor cannot '\(verb)'")
        }
        return ""
    }

    /// Writes an item if it still has a generation. Returns the result.
    private func swap(_ url: URL, _ generation: String, _ text: String) -> String {
        var (failure, result): (NSError?, String) = (nil, "not called")
        FileCoordinator().coordinate(writingItemAt: url, ifGeneration: generation, error: &failure) { url in
            do {
                try Data(text.utf8).write(to: url)
                result = "written"
            } catch {
                result = "\(error)"
            }
        }
        guard let failure else { return result }
        guard let error = FileCoordinationError(failure), error.code == .changed, let change = error.change
        else {
            return "\(failure)"
        }
        let isExpected = change.expectedGeneration == generation && change.generation != generation
        return
            "changed by \(change.author?.program ?? "nothing"), \(result), \(isExpected), \(change.date != nil)"
    }

    /// Returns whether an item is missing, a directory, a zip archive or another file. An archive is recognized by its first
    /// bytes.
    private func kind(of url: URL) throws -> String {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory) else {
            return "nothing"
        }
        if isDirectory.boolValue { return "directory" }
        let first = try Data(contentsOf: url).prefix(2)
        return first == Data("PK".utf8) ? "zip" : "file"
    }
}

/// Prints a line when it is released. An accessor retains such an object, so the line shows when the accessor is released.
final class DeinitReporter: Sendable {
    private let name: String

    init(of name: String) { self.name = name }

    deinit { printLine("\(name) let go") }
}
