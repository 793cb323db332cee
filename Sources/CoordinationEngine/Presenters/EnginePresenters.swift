// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

/// A message to a presenter: a question or a notice.
package struct PresenterMessage: Sendable {
    package enum Content: Sendable {
        /// A question. `subitem` is the item in the presented directory that is to be deleted, or nil.
        case request(QuestionID, PresenterRequest, subitem: ItemID?, deadline: Instant)
        case notice(PresenterNotice, Notice.Subitem?)
    }

    package let presenter: PresenterID
    /// The access session of the message. A question to relinquish and the later reacquire have the same access
    /// session.
    package let accessSession: AccessSessionID
    package let content: Content
    package let cause: Cause
    /// The version that a notice is about; nil for all other messages.
    package let version: VersionNumber?
    /// The moment at which the arbiter decided to send the message.
    package let moment: Instant
    /// The paths that the item in the directory had at `moment`; nil if the mailbox has no resolver.
    package fileprivate(set) var paths: Paths?

    package struct Paths: Sendable {
        package let now: [UInt8]?
        package let before: [UInt8]?
    }

    init(
        presenter: PresenterID, accessSession: AccessSessionID, content: Content, cause: Cause,
        version: VersionNumber? = nil, at moment: Instant
    ) {
        self.version = version
        (self.presenter, self.accessSession, self.content, self.cause) = (
            presenter, accessSession, content, cause
        )
        self.moment = moment
    }

    /// The message without the item and without the version. The message then says only that something has happened.
    package var withoutSubitem: PresenterMessage {
        guard case .notice(let notice, let subitem) = content, subitem != nil || version != nil else {
            return self
        }
        return PresenterMessage(
            presenter: presenter, accessSession: accessSession, content: .notice(notice, nil), cause: cause,
            at: moment)
    }
}

/// The messages to the presenters of one connection, in the order in which the arbiter decided them.
package final class Mailbox: Sendable {
    private struct State {
        var messages: [PresenterMessage] = []
        /// Whether `wake` was called since the connection last took the messages.
        var isWoken = false
        /// Whether the presenters of the mailbox receive no notices about items in their directories; see
        /// ``Engine/pause(_:)``.
        var isPaused = false
    }

    /// If more messages than this are in the mailbox, the connection is treated as too slow for the events.
    static let most = 4096

    private let state = Mutex(State())
    /// Counts the questions in a row that the presenters of the connection have not answered.
    private let silence = Mutex(UnansweredStreak())
    private let pathResolver: (any ItemPathResolver)?
    private let wake: @Sendable () -> Void

    /// `wake` is called on any thread after messages were added, and must not block. `pathResolver` is called under
    /// the engine's lock.
    package init(pathResolver: (any ItemPathResolver)? = nil, wake: @escaping @Sendable () -> Void) {
        self.pathResolver = pathResolver
        self.wake = wake
    }

    package func take() -> [PresenterMessage] {
        state.withLock { state in
            defer { (state.messages, state.isWoken) = ([], false) }
            return state.messages
        }
    }

    /// Whether the presenters of the mailbox receive no notices about items in their directories. The connection ends
    /// the pause by ``Engine/resume(_:behind:told:)``.
    package var isPaused: Bool { state.withLock { $0.isPaused } }
    func setPaused(_ isPaused: Bool) { state.withLock { $0.isPaused = isPaused } }

    /// Adds a message. Returns whether the mailbox has too many messages now.
    ///
    /// The paths of a notice are determined now and not when the message is sent, because later messages can report new
    /// names of directories above.
    func put(_ message: PresenterMessage, _ known: inout SubitemPathCache) -> Bool {
        var message = message
        if case .notice(_, let subitem?) = message.content, let pathResolver {
            message.paths = known.paths(of: subitem, pathResolver)
        }
        return state.withLock { state in
            state.messages.append(message)
            return state.messages.count > Self.most
        }
    }

    /// Calls `wake`, unless it was called since the connection last took the messages.
    func deliver() {
        let isFirst = state.withLock { state in
            defer { state.isWoken = true }
            return !state.isWoken
        }
        if isFirst { wake() }
    }

    func noteSilence(at now: Instant) { silence.withLock { _ = $0.note(at: now) } }
    func noteAnswer() { silence.withLock { $0 = UnansweredStreak() } }
    func isSilent(at now: Instant) -> Bool { silence.withLock { $0.isLong(at: now) } }
}

/// The paths in the messages of one event. Each path is determined only once, because very many presenters can receive
/// the same notice.
struct SubitemPathCache {
    private var paths: [Notice.Subitem: PresenterMessage.Paths] = [:]

    mutating func paths(of subitem: Notice.Subitem, _ pathResolver: any ItemPathResolver)
        -> PresenterMessage.Paths
    {
        if let known = paths[subitem] { return known }
        let found = PresenterMessage.Paths(
            now: pathResolver.path(of: subitem.item, at: subitem.place),
            before: subitem.former.flatMap { pathResolver.path(of: subitem.item, at: $0) })
        paths[subitem] = found
        return found
    }

    /// Removes all paths. Called when an item has a new name.
    mutating func forget() { if !paths.isEmpty { paths = [:] } }
}

/// The engine's record of a presenter.
final class PresenterEntry: JournalSubject {
    let party: Party
    let messages: PresenterMessages
    let mailbox: Mailbox
    /// The guest to which the events of the presenter are charged; see ``DeliveryQuota``.
    let guest: UInt32?
    /// The presented document; nil while it does not exist.
    private let shown: Mutex<(any TrackedDocument)?>

    init(
        _ document: (any TrackedDocument)?, by party: Party, _ messages: PresenterMessages,
        in mailbox: Mailbox, guest: UInt32?
    ) {
        self.guest = guest
        shown = Mutex(document)
        self.party = party
        self.messages = messages
        self.mailbox = mailbox
    }

    var document: (any TrackedDocument)? { shown.withLock { $0 } }
    /// Sets the document, because the presented item exists from now on.
    func show(_ document: any TrackedDocument) { shown.withLock { $0 = document } }
    /// Removes the document, because the presenter is removed. The caller must release the document.
    func takeDocument() -> (any TrackedDocument)? { shown.withLock { $0.take() } }

    var path: [UInt8] { document?.path ?? [] }

    var attribution: Attribution {
        Attribution(of: party) { [self] in path }
    }
}

// Registration, removal and answers of presenters.
extension Engine {
    /// Registers a presenter. Its messages are put into the mailbox from now on.
    ///
    /// If `document` is nil, the presenter receives no questions or notices until ``show(_:by:)`` is called. The
    /// document is released when the presenter is removed. The events of the presenter are charged to `guest`, if there
    /// is one.
    package func present(
        _ document: (any TrackedDocument)?, by party: Party, implementing messages: PresenterMessages,
        in mailbox: Mailbox, guest: UInt32? = nil
    ) -> PresenterID {
        let id = PresenterID(makeClaimID().rawValue)
        // If the caller gives no guest, the party's user can still be a guest. The arbiter counts unanswered questions
        // for each guest.
        let guest = guest ?? (delays.isGuest(party.user) ? party.user : nil)
        let entry = PresenterEntry(document, by: party, messages, in: mailbox, guest: guest)
        withState { $0.presenters[id] = entry }
        guard let document else {
            submit(.presented(Presenter(id, of: nil, by: party, messages, guest: guest)))
            pauseIfQuotaSpent(id)
            return id
        }
        let (item, place) = (document.item, document.place)
        submit(.presented(Presenter(id, of: item, at: place, by: party, messages, guest: guest)))
        pauseIfQuotaSpent(id)
        follow(document, of: id, from: (item, place))
        return id
    }

    /// Sets the document of a presenter that had none, because the document exists from now on.
    package func show(_ document: any TrackedDocument, by presenter: PresenterID) {
        let entry = withState { $0.presenter(presenter) }
        guard let entry else { return document.release() }
        entry.show(document)
        let (item, place) = (document.item, document.place)
        submit(.shown(presenter, item, at: place))
        follow(document, of: presenter, from: (item, place))
    }

    /// Reports the item and place of the presenters of a document. Called when the document is another file from now
    /// on, perhaps in another directory.
    package func placePresenters(of document: ItemID) {
        let entries = withState { state in
            state.arbiter.presenters(of: document).compactMap { id in state.presenters[id].map { (id, $0) } }
        }
        for (id, entry) in entries {
            guard let document = entry.document else { continue }
            let (item, place) = (document.item, document.place)
            submit(.shown(id, item, at: place))
            follow(document, of: id, from: (item, place))
        }
    }

    /// Reports the item and place of a document, and repeats this as long as they differ from the last report.
    private func follow(
        _ document: any TrackedDocument, of presenter: PresenterID, from told: (item: ItemID, place: Place)
    ) {
        var told = told
        while document.item != told.item || document.place != told.place {
            told = (document.item, document.place)
            submit(.shown(presenter, told.item, at: told.place))
        }
    }

    /// Removes a presenter. Its open questions count as answered with consent, and it receives no more messages.
    package func remove(_ presenter: PresenterID) { removeFew([presenter]) }

    /// The number of presenters that are removed each time the lock is taken. The lock costs more time than the removal
    /// of a presenter.
    private static let removedAtOnce = 64

    /// Removes presenters in the given order.
    package func remove(_ presenters: [PresenterID]) {
        var rest = presenters[...]
        while !rest.isEmpty {
            removeFew(rest.prefix(Self.removedAtOnce))
            rest = rest.dropFirst(Self.removedAtOnce)
        }
    }

    private func removeFew(_ presenters: ArraySlice<PresenterID>) {
        let now = Self.now
        let (entries, deferredEffects, dropped): ([PresenterEntry], [DeferredEffect], EventContext) =
            withState { state in
                let entries = state.remove(presenters, at: now)
                countUnsaved(in: state)
                activeClientsFlag.store(state.arbiter.hasAwareClients, ordering: .relaxed)
                let deferredEffects = takeDeferredEffects(at: now, in: &state)
                return (entries, deferredEffects, state.eventContext.end())
            }
        withExtendedLifetime(dropped) {}
        run(deferredEffects)
        for entry in entries { entry.takeDocument()?.release() }
        releaseMemory(of: entries.count)
    }

    /// If at least this many presenters were removed, free memory is returned to the system.
    private static let many = 64
    /// How long to wait for further removals before free memory is returned.
    private static let quiet = TimeSpan.seconds(1)
    private static let mostTries = 10

    /// Returns free memory to the system after very many presenters were removed.
    private func releaseMemory(of removed: Int) {
        let (former, count) = withState { $0.noteRemoved(removed) }
        if former < Self.many, count >= Self.many { releaseMemoryWhenQuiet(since: count, tries: 1) }
    }

    /// Waits until no more presenters are removed, but at most `mostTries` times. Then returns free memory to the
    /// system.
    private func releaseMemoryWhenQuiet(since count: Int, tries: Int) {
        timers.schedule(at: (Self.now + Self.quiet).nanoseconds) { [self] in
            let isLast = tries == Self.mostTries
            if let now = withState({ $0.removedSince(count, orAnyway: isLast) }) {
                return releaseMemoryWhenQuiet(since: now, tries: tries + 1)
            }
            workers.run { OwnProcess.releaseFreeMemory() }
        }
    }

    /// The process of a presenter; nil if the presenter was removed.
    package func actor(behind presenter: PresenterID) -> ProcessDescription? {
        let entry = withState { $0.presenter(presenter) }
        return entry.map { ProcessDescription($0.attribution) }
    }

    /// Reports an answer of a presenter. An answer to an unknown question has no effect.
    package func answer(_ question: QuestionID, of presenter: PresenterID, _ answer: Answer) {
        noteAnswer(to: question)
        submit(.answered(question, by: presenter, answer))
    }

    /// Closes a question as if the presenter had consented, although it did not answer. Unlike ``answer(_:of:_:)``,
    /// this does not end the presenter's streak of unanswered questions.
    package func consent(_ question: QuestionID, of presenter: PresenterID) {
        submit(.answered(question, by: presenter, .done))
    }

    /// Reports that a presenter works on an answer and asks for more time.
    package func progress(_ question: QuestionID) { submit(.progressed(question)) }
}

extension Engine.State {
    func presenter(_ id: PresenterID) -> PresenterEntry? { presenters[id] }

    func parties(of ids: some Sequence<PresenterID>) -> [Party] { ids.compactMap { presenters[$0]?.party } }

    /// Removes presenters in the given order. Returns their entries, which the caller frees after the lock is released.
    fileprivate mutating func remove(
        _ ids: ArraySlice<PresenterID>, at now: Instant
    ) -> [PresenterEntry] {
        let entries = ids.compactMap { presenters.removeValue(forKey: $0) }
        for id in ids {
            unsaved.remove(id)
            subitemQuota.forget(id)
            arbiter.handle(.removed(id), at: now, into: &effects)
        }
        presenters.shrinkIfSparse()
        return entries
    }

    /// Adds to the number of removed presenters. Returns the numbers before and after.
    fileprivate mutating func noteRemoved(_ count: Int) -> (former: Int, now: Int) {
        defer { removed += count }
        return (removed, removed + count)
    }

    /// Compares the number of removed presenters with `count`. If both are equal, or if `anyway` is true, sets the number to
    /// zero and returns nil. Otherwise returns the number.
    fileprivate mutating func removedSince(_ count: Int, orAnyway anyway: Bool) -> Int? {
        if removed != count, !anyway { return removed }
        removed = 0
        return nil
    }
}

// Messages to presenters.
extension Engine {
    /// Puts a message into its mailbox. Called under the lock, so that messages are in the order in which the arbiter
    /// decided them.
    func post(
        _ content: PresenterMessage.Content, to presenter: PresenterID, _ accessSession: AccessSessionID,
        _ cause: Cause, version: VersionNumber? = nil,
        at now: Instant, in state: inout State
    ) -> DeferredEffect? {
        guard let entry = state.presenters[presenter] else { return nil }
        let message = PresenterMessage(
            presenter: presenter, accessSession: accessSession, content: content, cause: cause,
            version: version, at: now)
        let mailbox = entry.mailbox
        if mailbox.put(message, &state.messageBatch.paths) { state.messageBatch.overfull.append(mailbox) }
        // A mailbox is delivered only once for an event, after all messages of the event are in it.
        guard state.messageBatch.delivered.insert(ObjectIdentifier(mailbox)).inserted else { return nil }
        return .deliver(mailbox)
    }
}

extension Cause {
    /// The text of a message for the journal and the log, such as `save for cat (712)`.
    func describes(_ what: String) -> String {
        "\(what) for \(String(decoding: party.program, as: UTF8.self)) (\(party.shownProcess))"
    }
}
