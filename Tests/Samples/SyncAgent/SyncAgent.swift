// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// A change of one file that the server reports.
enum Change: Sendable {
    /// The server has added these lines to the file.
    case lines([String])
    /// The server has deleted the file. The agent deletes the local file if its lines equal these lines, which the server had
    /// last.
    case deletion(last: [String])
}

/// The result when the agent applies a change that the server sent.
enum Outcome: Sendable, CustomStringConvertible {
    case merged(added: Int)
    case deleted
    /// The server has deleted the file. But the local file was changed, so the agent does not delete it.
    case kept
    /// The user has paused the agent. The agent makes the change later, so this is no failure.
    case postponed
    /// A presenter failed to do what it was asked to do, or the file cannot be written.
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

/// Applies the server's changes to a folder, and sends the changes in the folder to the server.
final class SyncAgent: @unchecked Sendable {
    // @unchecked: `coordinators` and `isPaused` are accessed only while `lock` is held; the rest never changes.

    /// The purpose of all coordinators of the agent, in all its processes. Accesses with the same purpose do not wait for each
    /// other.
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

    // MARK: - Coordinators of the agent

    func makeCoordinator() -> NSFileCoordinator {
        let coordinator = NSFileCoordinator(filePresenter: nil)
        coordinator.purposeIdentifier = Self.purpose
        return coordinator
    }

    /// Cancels the accesses that wait, and prevents further accesses.
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

    /// Runs an operation that the user has started, with a coordinator that `pause` can cancel.
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

    // MARK: - Merging the server's changes

    /// Applies a change in the background. The completion handler is called on the agent's queue.
    func apply(_ change: Change, to url: URL, completion: @escaping @Sendable (Outcome) -> Void) {
        queue.addOperation { [self] in
            do {
                completion(try withCoordinator { try apply(change, to: url, $0) })
            } catch {
                completion(Outcome(error))
            }
        }
    }

    /// Applies a change. Before this, the presenters of the file save, so that the merged text contains their changes.
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
                // The second access asks the presenters of the file to agree to the deletion. The first access cannot ask this,
                // because an access has only one option. The second access is nested in the first access and uses the same
                // coordinator, so it does not wait for the first access.
                return try coordinator.writing(newURL, .forDeleting) { newURL in
                    try FileManager.default.removeItem(at: newURL)
                    return .deleted
                }
            }
        }
    }

    /// Returns the lines of a file, read with a new coordinator.
    ///
    /// The new coordinator has the agent's purpose. Without this purpose, a read within a merge would wait for the merge, and
    /// the merge for the read.
    func lines(of url: URL) throws -> [String] {
        try makeCoordinator().reading(url, .withoutChanges) { newURL in
            guard FileManager.default.fileExists(atPath: newURL.path) else { return [] }
            let text = try String(contentsOf: newURL, encoding: .utf8)
            return text.split(separator: "\n").map(String.init)
        }
    }
}
