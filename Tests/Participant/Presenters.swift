// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation
import Synchronization

typealias ParticipantPresenter = FilePresenter & BasePresenter

/// The common part of all presenters: each has a serial queue, and for each message a reaction that orders have set.
///
/// The subclasses conform to `FilePresenter`, and this class does not. If this class conformed, a subclass could not implement
/// a message that this class does not implement.
class BasePresenter: NSObject, @unchecked Sendable {
    // @unchecked: all mutable state is in `state`; subclasses add none.
    private struct State {
        var url: URL?
        var reactions: [String: [String]] = [:]
        /// The answers that the presenter has not given yet.
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

    /// Sets how the presenter reacts to a message from now on. If no words are given, the presenter only answers.
    func react(to message: String, by words: [String]) {
        state.withLock { $0.reactions[message] = words }
        // The order `answer` also gives the answers that the presenter has not given yet.
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

    /// Prints the question, carries out the reaction that an order has set, and answers.
    func asked(
        _ message: String, _ shown: String? = nil, _ answer: @escaping @Sendable ((any Error)?) -> Void
    ) {
        tells(shown ?? message)
        let words = state.withLock { $0.reactions[message] } ?? []
        switch words.first {
        case nil: answer(nil)
        case "hold": state.withLock { $0.held.append(answer) }
        // The presenter begins an access, and answers only when a later order tells it to.
        case "intents":
            state.withLock { $0.held.append(answer) }
            participant.beginLater(words.dropFirst())
        // The presenter answers, and then blocks its queue until it gets an order.
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

    /// Replaces the file by a new file with the text, as programs that edit documents do.
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

    /// Prints the notice. If an order has set this reaction, also reads the file by a coordinator that belongs to this
    /// presenter.
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

/// A presenter that implements only what the protocol requires.
final class MinimalPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: this class adds no state to that of `BasePresenter`.
}

/// A presenter that implements no message except `presentedItemDidChange`.
final class ChangeOnlyPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: this class adds no state to that of `BasePresenter`.
    func presentedItemDidChange() { told("didChange") }
}

/// A presenter that forwards its questions to another presenter, which implements only what the protocol requires.
final class ForwardingPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: `other`, to which this presenter forwards messages, never changes.
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
    // @unchecked: this class adds no state to that of `BasePresenter`.
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

/// A presenter that can be asked to save, and that implements the messages about versions.
final class VersionPresenter: BasePresenter, FilePresenter, @unchecked Sendable {
    // @unchecked: this class adds no state to that of `BasePresenter`.
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        asked("save", nil, completionHandler)
    }

    func presentedItemDidGain(_ version: FileVersion) {
        told("gained \(version.localizedName ?? "") \(version.isConflict ? "conflict" : "plain")")
    }
    func presentedItemDidLose(_ version: FileVersion) { told("lost") }
    func presentedItemDidResolveConflict(_ version: FileVersion) {
        told("resolved \(version.localizedName ?? "") \(version.isResolved)")
    }
    func presentedSubitem(at url: URL, didGain version: FileVersion) { told("gained \(place.name(url))") }
    func presentedSubitem(at url: URL, didLose version: FileVersion) { told("lost \(place.name(url))") }
    func presentedSubitem(at url: URL, didResolve version: FileVersion) {
        told("resolved \(place.name(url))")
    }
}
