// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The server's report about one file.
enum Change: Sendable {
    /// Add these lines to the present ones.
    case lines([String])
    /// Delete the file, unless its lines differ from these last known ones.
    case deletion(last: [String])
}

/// The result of a change.
enum Outcome: Sendable, CustomStringConvertible {
    case merged(added: Int)
    case deleted
    /// The file was deleted on the server and changed here: the changed file stays.
    case kept
    /// The user paused the agent, which tries the change again later; this is no failure.
    case postponed
    /// A presenter failed to do what it was asked, or the file cannot be written.
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

/// Applies the server's changes to a folder, and sends the folder's changes.
final class SyncAgent: @unchecked Sendable {
    // @unchecked: `coordinators` and `isPaused` are accessed only while `lock` is held; the rest never changes.

    /// All coordinators of the agent share this purpose in all processes, so none waits for another.
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

    /// Cancels waiting accesses, and prevents later ones.
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

    /// Runs one operation of the user with a coordinator that `pause` can cancel.
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

    /// Applies a change in the background; the completion handler is called on the agent's queue.
    func apply(_ change: Change, to url: URL, completion: @escaping @Sendable (Outcome) -> Void) {
        queue.addOperation { [self] in
            do {
                completion(try withCoordinator { try apply(change, to: url, $0) })
            } catch {
                completion(Outcome(error))
            }
        }
    }

    /// Presenters of the file save first, so that the merge includes their changes.
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
                // One access has one option. A coordinator does not wait for itself, so a second access may be nested.
                // The presenters of the file are then asked about its deletion.
                return try coordinator.writing(newURL, .forDeleting) { newURL in
                    try FileManager.default.removeItem(at: newURL)
                    return .deleted
                }
            }
        }
    }

    /// Reads with a coordinator of its own. It has the agent's purpose, since another coordinator would wait for ever
    /// within a merge.
    func lines(of url: URL) throws -> [String] {
        try makeCoordinator().reading(url, .withoutChanges) { newURL in
            guard FileManager.default.fileExists(atPath: newURL.path) else { return [] }
            let text = try String(contentsOf: newURL, encoding: .utf8)
            return text.split(separator: "\n").map(String.init)
        }
    }
}
