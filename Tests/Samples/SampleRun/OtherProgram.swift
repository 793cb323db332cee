// SPDX-License-Identifier: Apache-2.0
public import FileCoordination
public import Foundation

/// Acts for another program that uses the same files. For each access it makes a new coordinator that belongs to no presenter.
public struct OtherProgram: Sendable {
    public init() {}

    public func read(_ url: URL, options: NSFileCoordinator.ReadingOptions = []) throws -> String {
        var failure: NSError?
        var result: Result<String, any Error> = .success("")
        NSFileCoordinator(filePresenter: nil).coordinate(
            readingItemAt: url, options: options, error: &failure
        ) { url in
            result = Result { try String(contentsOf: url, encoding: .utf8) }
        }
        if let failure { throw failure }
        return try result.get()
    }

    public func write(
        _ text: String, to url: URL, options: NSFileCoordinator.WritingOptions = []
    ) throws {
        try change(url, options) { try Data(text.utf8).write(to: $0, options: .atomic) }
    }

    public func delete(_ url: URL) throws {
        try change(url, .forDeleting) { try FileManager.default.removeItem(at: $0) }
    }

    /// Holds a write access to a file while `body` runs.
    public func hold(_ url: URL, while body: () throws -> Void) throws {
        let (held, letGo) = (EventualResult<Void>("a writer"), DispatchSemaphore(value: 0))
        let ended = EventualResult<Void>("the end of a writer")
        DispatchQueue.global().async {
            ended.settle(
                Result {
                    try change(url, []) { _ in
                        held.settle(.success(()))
                        letGo.wait()
                    }
                })
        }
        try held.value()
        let result = Result { try body() }
        letGo.signal()
        try ended.value()
        try result.get()
    }

    public func move(_ source: URL, to destination: URL) throws {
        let coordinator = NSFileCoordinator()
        var failure: NSError?
        var result: Result<Void, any Error> = .success(())
        coordinator.coordinate(
            writingItemAt: source, options: .forMoving, writingItemAt: destination, options: .forReplacing,
            error: &failure
        ) { source, destination in
            result = Result {
                try FileManager.default.moveItem(at: source, to: destination)
                coordinator.item(at: source, didMoveTo: destination)
            }
        }
        if let failure { throw failure }
        try result.get()
    }

    private func change(
        _ url: URL, _ options: NSFileCoordinator.WritingOptions, _ body: (URL) throws -> Void
    ) throws {
        var failure: NSError?
        var result: Result<Void, any Error> = .success(())
        NSFileCoordinator(filePresenter: nil).coordinate(
            writingItemAt: url, options: options, error: &failure
        ) { url in
            result = Result { try body(url) }
        }
        if let failure { throw failure }
        try result.get()
    }
}
