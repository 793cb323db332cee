// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import Synchronization

typealias ParticipantPresenter = FilePresenter & BasePresenter

/// The common part of all presenters: a serial queue of their own, and reactions.
///
/// Each subclass declares the conformance itself. If this class did, its subclasses could not implement methods that it
/// leaves to the defaults.
class BasePresenter: NSObject, @unchecked Sendable {
    // @unchecked: all mutable state is in `state`; subclasses add none.
    private struct State {
        var url: URL?
        var reactions: [String: [String]] = [:]
        /// Answers that were put off.
        var held: [@Sendable ((any Error)?) -> Void] = []
    }

    let name: String
    let orderQueue = OrderQueue()
    let participant: Participant
    let presentedItemOperationQueue = OperationQueue()
    private let state: Mutex<State>

    init(_ name: String, at url: URL?, of participant: Participant) {
        self.name = name
        self.participant = participant
        state = Mutex(State(url: url))
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
    }

    var presentedItemURL: URL? { state.withLock { $0.url } }
    var place: ParticipantDirectory { participant.place }
    var presenting: (any FilePresenter)? { self as? any FilePresenter }

    func locate(at url: URL) { state.withLock { $0.url = url } }

    /// Sets the reaction to a message from now on; without words the presenter only answers.
    func react(to message: String, by words: [String]) {
        state.withLock { $0.reactions[message] = words }
        // The order `answer` also releases the answers that were put off.
        if words.first == "answer" {
            let held = state.withLock { state in
                defer { (state.held, state.reactions[message]) = ([], nil) }
                return state.held
            }
            let error =
                words.count > 1 ? ParticipantError(words: words.dropFirst().joined(separator: " ")) : nil
            for answer in held { answer(error) }
        }
    }

    func tells(_ words: String) { printLine("\(name) \(words)") }

    /// Prints the question, performs the reaction, and answers.
    func asked(
        _ message: String, _ shown: String? = nil, _ answer: @escaping @Sendable ((any Error)?) -> Void
    ) {
        tells(shown ?? message)
        let words = state.withLock { $0.reactions[message] } ?? []
        switch words.first {
        case nil: answer(nil)
        case "hold": state.withLock { $0.held.append(answer) }
        // The presenter answers on a later order; meanwhile an access runs.
        case "intents":
            state.withLock { $0.held.append(answer) }
            participant.beginLater(words.dropFirst())
        // The presenter answers, and blocks its queue until it gets an order.
        case "linger":
            answer(nil)
            _ = orderQueue.next()
        case "error": answer(ParticipantError(words: words.dropFirst().joined(separator: " ")))
        case "obey":
            while true {
                let order = orderQueue.next()
                guard order[0] == "progress" else { break }
                FileCoordinator.reportProgress()
                tells("progressed")
            }
            answer(nil)
        case "save": answer(save(by: words[1], words[2]))
        case "save-elsewhere":
            DispatchQueue.global().async { answer(self.save(by: words[1], words[2])) }
        default: preconditionFailure("no presenter can '\(words)'")
        }
    }

    /// Saves as documents do, by replacing the file.
    private func save(by coordinator: String, _ text: String) -> (any Error)? {
        guard let url = presentedItemURL else { return nil }
        var (outer, inner): (NSError?, (any Error)?) = (nil, nil)
        participant.coordinator(coordinator).coordinate(writingItemAt: url, error: &outer) { url in
            do { try Data(text.utf8).write(to: url, options: .atomic) } catch { inner = error }
        }
        guard let error = outer ?? inner else { return nil }
        tells("could not save: \(shown(error))")
        return error
    }

    /// Prints the notice, and may read by a coordinator linked to itself.
    func told(_ words: String) {
        tells(words)
        let reaction = state.withLock { $0.reactions[words] }
        guard reaction?.first == "read", let url = presentedItemURL else { return }
        var (error, text): (NSError?, String?) = (nil, nil)
        FileCoordinator(filePresenter: presenting).coordinate(readingItemAt: url, error: &error) { url in
            do { text = try String(contentsOf: url, encoding: .utf8) } catch { text = shown(error) }
        }
        tells(error.map { "could not read: \(shown($0))" } ?? "read \(text ?? "")")
    }
}

/// A presenter that implements only the required members.
final class MinimalPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: it has no state of its own.
}

/// A presenter that implements only the notice of changes.
final class ChangeOnlyPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: it has no state of its own.
    func presentedItemDidChange() { told("didChange") }
}

/// A presenter that forwards its questions to another one, which implements only the required members.
final class ForwardingPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: the presenter to which it forwards messages does not change.
    private let other: MinimalPresenter

    override init(_ name: String, at url: URL?, of participant: Participant) {
        other = MinimalPresenter(name, at: url, of: participant)
        super.init(name, at: url, of: participant)
    }

    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        tells("relinquishToReader")
        other.relinquishPresentedItem(toReader: reader)
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        tells("save")
        other.savePresentedItemChanges(completionHandler: completionHandler)
    }
}

/// A presenter that implements all messages.
final class FullPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: it has no state of its own.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        asked("relinquishToReader") { _ in reader { self.tells("reacquired") } }
    }

    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        asked("relinquishToWriter") { _ in writer { self.tells("reacquired") } }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        asked("save", nil, completionHandler)
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        asked("deletion", nil, completionHandler)
    }

    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        asked("subitemDeletion", "subitemDeletion \(place.name(url))", completionHandler)
    }

    func presentedItemDidMove(to newURL: URL) {
        locate(at: newURL)
        told("didMove \(place.name(newURL))")
    }

    func presentedItemDidChange() { told("didChange") }
    func presentedSubitemDidAppear(at url: URL) { told("appeared \(place.name(url))") }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
        told("moved \(place.name(oldURL)) \(place.name(newURL))")
    }
    func presentedSubitemDidChange(at url: URL) { told("changed \(place.name(url))") }
}
