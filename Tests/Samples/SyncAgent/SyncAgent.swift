// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// What the server says of one file.
enum Change: Sendable {
    /// These lines, beside what is there.
    case lines([String])
    /// The file is deleted, unless somebody has written in it since it had these lines.
    case deletion(last: [String])
}

/// What became of a change.
enum Outcome: Sendable, CustomStringConvertible {
    case merged(added: Int)
    case deleted
    /// Deleted there and changed here: what was changed stays.
    case kept
    /// The user paused the agent; it is tried again later, and no failure.
    case postponed
    /// Somebody who shows the file could not do what was asked of them, or the file cannot be written.
    case failed(domain: String, code: Int)

    init(_ error: any Error) {
        let error = error as NSError
        if error.domain == NSCocoaErrorDomain, error.code == NSUserCancelledError {
            self = .postponed
        } else {
            self = .failed(domain: error.domain, code: error.code)
        }
    }

    var description: String {
        switch self {
        case .merged(let added): "merged, \(added) added"
        case .deleted: "deleted"
        case .kept: "kept, because it was changed here"
        case .postponed: "postponed"
        case .failed(let domain, let code): "failed: \(domain) \(code)"
        }
    }
}

/// Brings what happened elsewhere into a folder, and sends what happened here.
final class SyncAgent: @unchecked Sendable {
    // @unchecked: `coordinators` and `isPaused` are touched with `lock` locked only; the rest never changes.

    /// All coordinators of the agent are one party, whichever process they are in: none waits for another.
    static let purpose = "org.example.SyncAgent"

    let queue: OperationQueue
    private let lock = NSLock()
    private var coordinators: [ObjectIdentifier: NSFileCoordinator] = [:]
    private var isPaused = false

    init() {
        queue = OperationQueue()
        queue.name = "org.example.SyncAgent"
        queue.qualityOfService = .background
        queue.maxConcurrentOperationCount = 2
    }

    // MARK: - Coordinators

    func makeCoordinator() -> NSFileCoordinator {
        let coordinator = NSFileCoordinator(filePresenter: nil)
        coordinator.purposeIdentifier = Self.purpose
        return coordinator
    }

    /// What waits for others stops waiting, and what comes later does not begin.
    func pause() {
        let waiting = lock.withLock {
            isPaused = true
            return Array(coordinators.values)
        }
        for coordinator in waiting { coordinator.cancel() }
    }

    func resume() {
        lock.withLock { isPaused = false }
    }

    /// A coordinator for one operation of the user's, which `pause` can reach.
    func withCoordinator<Value>(_ body: (NSFileCoordinator) throws -> Value) throws -> Value {
        let coordinator = makeCoordinator()
        let isPaused = lock.withLock {
            coordinators[ObjectIdentifier(coordinator)] = coordinator
            return self.isPaused
        }
        defer { lock.withLock { _ = coordinators.removeValue(forKey: ObjectIdentifier(coordinator)) } }
        if isPaused { throw CocoaError(.userCancelled) }
        return try body(coordinator)
    }

    // MARK: - Merging

    /// In the background; the completion handler is called on the agent's queue.
    func apply(_ change: Change, to url: URL, completion: @escaping @Sendable (Outcome) -> Void) {
        queue.addOperation { [self] in
            do {
                completion(try withCoordinator { try apply(change, to: url, $0) })
            } catch {
                completion(Outcome(error))
            }
        }
    }

    /// Whoever shows the file saves first, since what they have is part of what is merged.
    private func apply(_ change: Change, to url: URL, _ coordinator: NSFileCoordinator) throws -> Outcome {
        try coordinator.writing(url, .forMerging) { newURL in
            let present = try lines(of: newURL)
            switch change {
            case .lines(let incoming):
                let missing = incoming.filter { !present.contains($0) }
                guard !missing.isEmpty else { return .merged(added: 0) }
                let text = (present + missing).map { $0 + "\n" }.joined()
                try Data(text.utf8).write(to: newURL, options: .atomic)
                return .merged(added: missing.count)
            case .deletion(let last):
                guard present == last else { return .kept }
                // One access has one option. A coordinator does not wait for itself, so a second one may be
                // nested in the first: those who show the file are asked whether it may go.
                return try coordinator.writing(newURL, .forDeleting) { newURL in
                    try FileManager.default.removeItem(at: newURL)
                    return .deleted
                }
            }
        }
    }

    /// With a coordinator of its own: called within a merge as well, where one with another purpose would
    /// wait for that for ever.
    func lines(of url: URL) throws -> [String] {
        try makeCoordinator().reading(url, .withoutChanges) { newURL in
            guard FileManager.default.fileExists(atPath: newURL.path) else { return [] }
            let text = try String(contentsOf: newURL, encoding: .utf8)
            return text.split(separator: "\n").map(String.init)
        }
    }
}
