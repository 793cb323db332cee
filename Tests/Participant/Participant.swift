// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import Synchronization

/// The coordinators, accesses and presenters of this program, each under a name.
final class Participant: Sendable {
    private struct State {
        var coordinators: [String: FileCoordinator] = [:]
        var accessors: [String: Accessor] = [:]
        var presenters: [String: any ParticipantPresenter] = [:]
        var retainedFiles: [String: FileHandle] = [:]
        var occupied: [String: OccupiedQueue] = [:]
    }

    let place: ParticipantDirectory
    private let state = Mutex(State())

    init(at root: String) {
        place = ParticipantDirectory(root: URL(fileURLWithPath: root, isDirectory: true))
    }

    func obey(_ order: [String]) {
        guard order.count > 1 else { return }
        let (name, rest) = (order[1], order.dropFirst())
        switch order[0] {
        case "coordinator": addCoordinator(name, Array(order.dropFirst(2)))
        case "cancel": coordinator(name).cancel()
        case "begin": begin(rest, isNested: false)
        case "intents": beginLater(rest)
        case "occupy": state.withLock { $0.occupied[name] = OccupiedQueue() }
        case "queued": printLine("\(name) queued \(occupied(name)?.waiting ?? 0)")
        case "free": occupied(name)?.free()
        case "drop": occupied(name)?.drop()
        case "task": beginInTask(rest)
        case "prepare": prepare(rest, isNested: false)
        case "loop": loop(rest)
        case "do", "in": accessor(name).orderQueue.put(Array(order.dropFirst(2)))
        case "end": accessor(name).orderQueue.put(["end"])
        case "kept": printLine("\(name) kept \(retainedBytes(name))")
        case "present": present(name, order)
        // Programs that were written for Apple's systems add presenters by this call, which reports no failure.
        case "add":
            FileCoordinator.addFilePresenter(makePresenter(name, order))
            printLine("\(name) added")
        case "remove": FileCoordinator.removeFilePresenter(presenter(name))
        case "unsaved": FileCoordinator.noteUnsavedChanges(order[2] == "yes", of: presenter(name))
        case "locate": presenter(name).locate(at: place.url(order[2]))
        case "on":
            presenter(name).react(to: order[2], by: Array(order.dropFirst(3)))
            printLine("reaction set")
        case "tell": presenter(name).orderQueue.put(Array(order.dropFirst(2)))
        case "settle": settle(name)
        default: preconditionFailure("no participant can '\(order[0])'")
        }
    }

    private func addCoordinator(_ name: String, _ words: [String]) {
        let isLinked = words.first == "linked"
        let coordinator = FileCoordinator(filePresenter: isLinked ? presenter(words[1]) : nil)
        if words.first == "purpose" { coordinator.purposeIdentifier = words[1] }
        if words.count > 2 { coordinator.purposeIdentifier = words[2] }
        state.withLock { $0.coordinators[name] = coordinator }
    }

    /// Returns the coordinator with this name. If there is none, makes a new coordinator that belongs to no presenter.
    func coordinator(_ name: String) -> FileCoordinator {
        state.withLock { state in
            if let known = state.coordinators[name] { return known }
            let coordinator = FileCoordinator()
            state.coordinators[name] = coordinator
            return coordinator
        }
    }

    private func accessor(_ name: String) -> Accessor {
        guard let accessor = state.withLock({ $0.accessors[name] }) else {
            preconditionFailure("there is no access '\(name)'")
        }
        return accessor
    }

    private func presenter(_ name: String) -> any ParticipantPresenter {
        guard let presenter = state.withLock({ $0.presenters[name] }) else {
            preconditionFailure("there is no presenter '\(name)'")
        }
        return presenter
    }

    private func occupied(_ name: String) -> OccupiedQueue? { state.withLock { $0.occupied[name] } }

    func retain(_ file: FileHandle, as name: String) { state.withLock { $0.retainedFiles[name] = file } }

    private func retainedBytes(_ name: String) -> String {
        let file = state.withLock { $0.retainedFiles[name] }
        return "\(file?.readDataToEndOfFile().count ?? -1) bytes"
    }
}

// Commands for accesses. A command contains the name of the access, the name of its coordinator and the names of its items.
extension Participant {
    private func understand(_ words: ArraySlice<String>) -> (Accessor, FileCoordinator, AccessSpecification) {
        let words = Array(words)
        let coordinator = coordinator(words[1])
        let accessor = Accessor(words[0], by: coordinator, of: self)
        state.withLock { $0.accessors[words[0]] = accessor }
        return (accessor, coordinator, AccessSpecification(words.dropFirst(2), in: place))
    }

    /// Begins an access by a blocking method: on a new thread, or on the thread of the outer access if it is nested.
    func begin(_ words: ArraySlice<String>, isNested: Bool) {
        let (accessor, coordinator, specification) = understand(words)
        run(isNested: isNested) {
            let began = ContinuousClock.now
            let error = specification.coordinate(by: coordinator) { accessor.serve($0) }
            printLine(Self.outcome(accessor.name, error, began))
        }
    }

    func prepare(_ words: ArraySlice<String>, isNested: Bool) {
        let (accessor, coordinator, specification) = understand(words)
        run(isNested: isNested) {
            let began = ContinuousClock.now
            var error: NSError?
            coordinator.prepare(
                forReadingItemsAt: specification.reads.map(\.url),
                options: specification.reads.first?.reading ?? [],
                writingItemsAt: specification.writes.map(\.url),
                options: specification.writes.first?.writing ?? [],
                error: &error
            ) { accessor.serve(batch: $0) }
            printLine(Self.outcome(accessor.name, error, began))
        }
    }

    /// Begins an access with a queue: a new queue, or the queue that was occupied for this access.
    func beginLater(_ words: ArraySlice<String>) {
        let (accessor, coordinator, specification) = understand(words)
        let (intents, queue) = (
            specification.items.map(\.intent), occupied(accessor.name)?.queue ?? OperationQueue()
        )
        let began = ContinuousClock.now
        let deinitReporter = DeinitReporter(of: accessor.name)
        coordinator.coordinate(with: intents, queue: queue) { error in
            defer { withExtendedLifetime(deinitReporter) {} }
            let isThere = OperationQueue.current === queue
            if error == nil {
                accessor.serve(intents.map(\.url), where: isThere ? " on its queue" : " elsewhere")
            }
            printLine(Self.outcome(accessor.name, error, began))
        }
    }

    private func beginInTask(_ words: ArraySlice<String>) {
        let (accessor, coordinator, specification) = understand(words)
        let item = specification.items[0]
        Task {
            let began = ContinuousClock.now
            do {
                if item.isRead {
                    try await coordinator.read(item.url, options: item.reading) {
                        try await accessor.serveInTask([$0])
                    }
                } else {
                    try await coordinator.write(item.url, options: item.writing) {
                        try await accessor.serveInTask([$0])
                    }
                }
                printLine(Self.outcome(accessor.name, nil, began))
            } catch {
                printLine(Self.outcome(accessor.name, error, began))
            }
        }
    }

    private func run(isNested: Bool, _ body: @escaping @Sendable () -> Void) {
        if isNested { body() } else { Thread.detachNewThread(body) }
    }

    private static func outcome(
        _ name: String, _ error: (any Error)?, _ began: ContinuousClock.Instant
    ) -> String {
        guard let error else { return "\(name) ended" }
        return "\(name) failed after \(milliseconds(since: began)) ms: \(shown(error))"
    }

    /// Repeats an access many times, each time with a new coordinator.
    ///
    /// In each round the accessor creates and removes the directory `gate`. If two accesses run at the same time, the second
    /// cannot create the directory. An accessor that writes writes a different text in each round.
    private func loop(_ words: ArraySlice<String>) {
        let words = Array(words)
        let (name, count, gate) = (words[0], Int(words[1]) ?? 0, words[2])
        let isWriting = words[3] == "putting"
        let specification = AccessSpecification(words.dropFirst(isWriting ? 4 : 3), in: place)
        Thread.detachNewThread {
            let began = ContinuousClock.now
            for round in 1...count {
                let why = Self.round(specification, gate, isWriting ? "\(name)-\(round)" : nil)
                if let why { return printLine("\(name) failed in round \(round): \(why)") }
            }
            printLine("\(name) done in \(milliseconds(since: began)) ms")
        }
    }

    /// Runs one round of the loop. Returns the text of the access's error; nil if the access succeeded.
    private static func round(_ specification: AccessSpecification, _ gate: String, _ text: String?)
        -> String?
    {
        var why: String?
        let error = specification.coordinate(by: FileCoordinator()) { urls in
            do {
                try FileManager.default.createDirectory(atPath: gate, withIntermediateDirectories: false)
                if let text { try Data(text.utf8).write(to: urls[urls.count - 1]) }
                try FileManager.default.removeItem(atPath: gate)
            } catch {
                why = "\(error)"
            }
        }
        return error.map { shown($0) } ?? why
    }
}

// Commands for presenters.
extension Participant {
    private func present(_ name: String, _ order: [String]) {
        let presenter = makePresenter(name, order)
        do {
            try FileCoordinator.register(presenter)
            printLine("\(name) presents")
        } catch {
            printLine("\(name) failed: \(shown(error))")
        }
    }

    /// Makes a presenter from `present NAME PATH KIND`. The path `-` means that the presenter has no URL yet.
    private func makePresenter(_ name: String, _ order: [String]) -> any ParticipantPresenter {
        let url = order[2] == "-" ? nil : place.url(order[2])
        let kind = order.count > 3 ? order[3] : "everything"
        let presenter: any ParticipantPresenter =
            switch kind {
            case "everything": FullPresenter(name, at: url, of: self)
            case "changes": ChangeOnlyPresenter(name, at: url, of: self)
            case "forwarding": ForwardingPresenter(name, at: url, of: self)
            case "versions": VersionPresenter(name, at: url, of: self)
            case "nothing": MinimalPresenter(name, at: url, of: self)
            default: preconditionFailure("no presenter implements '\(kind)'")
            }
        state.withLock { $0.presenters[name] = presenter }
        return presenter
    }

    /// Prints that all earlier messages of the daemon have arrived, and that the presenter has handled all of them.
    private func settle(_ name: String) {
        let presenter = state.withLock { $0.presenters[name] }
        let probe = MinimalPresenter("probe", at: place.root, of: self)
        Thread.detachNewThread {
            do {
                try FileCoordinator.register(probe)
                FileCoordinator.removeFilePresenter(probe)
                presenter?.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
                printLine("\(name) settled")
            } catch {
                printLine("\(name) failed: \(shown(error))")
            }
        }
    }
}
