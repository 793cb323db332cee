// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore

/// The presenters of one connection, the messages to them and their answers. Used only on the event loop.
final class ConnectionPresenters {
    private struct ClientPresenter {
        let document: any TrackedDocument
        let purpose: Purpose
        /// The path of the document that the client was last sent.
        var path: [UInt8]
    }

    private unowned let connection: ClientConnection
    private let services: SharedServices
    private var mailbox: Mailbox?
    private var presented: [PresenterID: ClientPresenter] = [:]
    private var questions: QuestionTable
    private var lastSequence: UInt64 = 0

    /// The number of registrations that have no reply yet. Messages for these presenters wait in `earlyMessages` until the
    /// reply is sent.
    private var registering = 0
    private var earlyMessages: [PresenterMessage] = []
    /// The number of this connection's presenters that count for the guest's limit; 0 if the client is no guest.
    private var reservedSlots = 0
    /// The number of messages to a guest for which the guest's rights are being checked.
    private var pendingChecks = 0
    /// The number of the last presenter that the client was told of in a reply.
    ///
    /// Presenters that are registered later have greater numbers, and their registrations are answered in the order of these
    /// numbers.
    private var lastAdded = PresenterID(0)
    /// The latest notice of each kind that was not checked, because too many checks were waiting. It is sent later without the
    /// name that changed.
    private var coalescedNotices: [PresenterID: [PresenterNotice: PresenterMessage]] = [:]
    /// Messages to a guest for which the next job on the work queue checks the guest's rights.
    private var nextChecks: [(message: PresenterMessage, document: any TrackedDocument)] = []
    private var encoder = NoticeEncoder()
    /// The pause in which notices about names are not sent; nil if there is no pause.
    private var pause: NoticePause?
    private var shortPauseDeadline = NIODeadline.uptimeNanoseconds(0)

    /// A pause in which the client is sent no notices about names in presented directories, because too many messages wait for
    /// the client.
    ///
    /// After the pause, the client is told that there were more changes.
    private final class NoticePause {
        /// The presenters that missed a notice in this pause.
        var presentersWithGap: Set<PresenterID> = []
        /// Whether the pause continues after the client has read all its messages. In this case, the client is told of
        /// the missed notices only at the end of the pause.
        var isLong = false
    }

    /// The length of a long pause for each presenter of the client. A pause becomes long if another pause ended just before.
    ///
    /// Long pauses are rarer than short pauses, and so take less time from other clients.
    private static let pausePerPresenter = TimeAmount.microseconds(500)
    /// The most messages to a guest that one job on the work queue checks.
    private static let checksAtOnce = 64

    init(of connection: ClientConnection, in services: SharedServices) {
        self.connection = connection
        self.services = services
        questions = QuestionTable(lateAnswerGrace: services.engine.bounds.progress)
    }

    var count: Int { presented.count }

    func purpose(of presenter: UInt64) throws(ProtocolFailure) -> Purpose {
        guard let known = presented[PresenterID(presenter)] else {
            throw .notFound("you have no presenter \(presenter)")
        }
        return known.purpose
    }

    /// The engine's question that was sent as the request with this id; nil if it was answered.
    func question(_ id: MessageID) -> QuestionID? { questions.question(id)?.id }

    func wasAsked(_ id: MessageID) -> Bool { questions.wasAsked(id) }

    func register(_ parameters: RegisterParameters, answering id: MessageID) {
        guard presented.count + registering < ProtocolLimits.presenters else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.presenters) presenters"))
        }
        guard reserveSlots() else {
            return connection.answer(
                id,
                .tooMany("a guest has at most \(ProtocolLimits.presentersOfGuest) presenters"))
        }
        let purpose =
            parameters.purpose.map { connection.peer.purpose(named: $0) }
            ?? Purpose("presenter:\(services.registrationNumbers.next())")
        let mailbox = mailbox ?? makeMailbox()
        self.mailbox = mailbox
        registering += 1
        connection.begin(id)
        connection.onWorkQueue { resources, process throws(ProtocolFailure) in
            try resources.register(parameters, as: purpose, watching: process, in: mailbox)
        } then: { result in
            self.registering -= 1
            if case .failure = result { self.releaseSlots() }
            self.connection.finish(
                id, result.map { self.add($0, parameters, purpose) }.map { .register($0) })
            self.deliverEarly()
        }
    }

    /// Adds one presenter to the guest's count for all its connections. Returns false if the count would exceed the limit.
    ///
    /// The number is limited, because each event can cause a message to each of these presenters.
    private func reserveSlots() -> Bool {
        guard services.guest(connection.peer) != nil else { return true }
        guard services.presentersOfGuests.take(1, of: connection.peer.user) else { return false }
        reservedSlots += 1
        return true
    }

    private func releaseSlots(_ count: Int = 1) {
        guard services.guest(connection.peer) != nil else { return }
        reservedSlots -= count
        services.presentersOfGuests.release(count, of: connection.peer.user)
    }

    private func makeMailbox() -> Mailbox {
        let presenters = NIOLoopBound(self, eventLoop: connection.loop)
        return Mailbox(pathResolver: services.documents) { [loopGate = connection.loopGate] in
            loopGate.run { presenters.value.deliver() }
        }
    }

    private func add(
        _ registered: ClientResources.RegisteredPresenter, _ parameters: RegisterParameters,
        _ purpose: Purpose
    ) -> RegisterResult {
        lastAdded = registered.presenter
        presented[registered.presenter] = ClientPresenter(
            document: registered.document, purpose: purpose, path: registered.path)
        return RegisterResult(
            presenter: registered.presenter.rawValue, path: registered.path, messages: registered.messages,
            isPackage: registered.isPackage)
    }

    func remove(_ presenter: UInt64, answering id: MessageID) {
        let presenter = PresenterID(presenter)
        guard presented.removeValue(forKey: presenter) != nil else {
            return connection.answer(id, .notFound("you have no presenter \(presenter.rawValue)"))
        }
        questions.forget(presenter)
        releaseSlots()
        connection.begin(id)
        connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
            resources.remove(presenter)
        } then: { result in
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    /// Passes a presenter's answer to the engine.
    ///
    /// A second answer to a question has no effect. Nor has a very late answer, or an answer that belongs to no question.
    func take(_ answer: ClientAnswer) {
        guard let id = answer.id, let question = questions.takeAnswered(id) else {
            return connection.logOnce(.strayAnswer, "it answered a question that it was not asked")
        }
        if let words = answer.refusal {
            services.refusals.note(words, answer.origin, of: question.presenter, at: Engine.now)
        }
        // A guest's refusal counts as consent, because a guest must not stop other programs.
        let isRefused = answer.refusal != nil && services.guest(connection.peer) == nil
        services.engine.answer(question.id, of: question.presenter, isRefused ? .failed : .done)
    }

    func progress(_ id: MessageID) {
        guard let question = questions.question(id) else {
            return connection.logOnce(
                .strayAnswer, "it reported progress on a question that it was not asked")
        }
        // A guest's progress does not extend its deadline, because a guest must not delay other programs further.
        guard services.guest(connection.peer) == nil else { return }
        services.engine.progress(question.id)
    }

    /// Tells the engine whether a presenter has unsaved changes. This runs on the event loop, so that the engine gets the
    /// presenter's reports and answers in their order.
    func noteUnsaved(_ parameters: UnsavedParameters) {
        let presenter = PresenterID(parameters.presenter)
        guard presented[presenter] != nil else {
            return connection.logOnce(
                .strayNotice,
                "it reported unsaved changes of presenter \(presenter.rawValue), which is not its own")
        }
        services.engine.noteUnsaved(parameters.isUnsaved, by: presenter)
    }

    /// Stops the sending of messages. ``ClientResources`` removes the presenters; their unanswered questions then end.
    ///
    /// Returns a closure that subtracts the presenters from the guest's count. Any thread may call the closure.
    func close() -> @Sendable () -> Void {
        // The mailbox and this object refer to each other, so the reference is removed here.
        mailbox = nil
        presented = [:]
        (earlyMessages, nextChecks) = ([], [])
        defer { reservedSlots = 0 }
        return { [reservedSlots, tally = services.presentersOfGuests, user = connection.peer.user] in
            if reservedSlots > 0 { tally.release(reservedSlots, of: user) }
        }
    }
}

// Sends messages to the presenters.
extension ConnectionPresenters {
    private func deliver() {
        for message in mailbox?.take() ?? [] { deliver(message) }
        checkNext()
        // If the mailbox was full, the engine has paused it. The connection then pauses too.
        if pause == nil, mailbox?.isPaused ?? false { _ = beginPause() }
    }

    /// Delivers the messages that came before the reply to their presenter's registration. The reply has now been sent, so the
    /// client has the presenter's number.
    private func deliverEarly() {
        let messages = earlyMessages
        earlyMessages = []
        for message in messages { deliver(message) }
        checkNext()
    }

    private func deliver(_ message: PresenterMessage) {
        guard let known = presented[message.presenter] else {
            return deliverToUnknown(message)
        }
        if message.concernsSubitem, replaceByGap(message, known) { return }
        guard let guest = services.guest(connection.peer) else {
            return deliver(
                message, to: known, at: known.document.path, MessagePaths(of: message, services.documents))
        }
        queueCheck(at: message, about: known.document, for: guest)
    }

    /// Called for a message to a presenter that is not in `presented`. If the presenter is being registered, the message waits.
    /// If the presenter was removed, a question counts as answered with consent.
    private func deliverToUnknown(_ message: PresenterMessage) {
        if registering > 0, message.presenter > lastAdded { return earlyMessages.append(message) }
        if case .request(let question, _, _, _) = message.content {
            services.engine.consent(question, of: message.presenter)
        }
    }

    /// Withholds a notice about a name while notices pause, and begins a pause if too many messages wait. Returns whether the
    /// notice was withheld.
    ///
    /// A gap replaces the withheld notices of a presenter. It is a notice without the name, after which the client reads the
    /// directory again.
    private func replaceByGap(_ message: PresenterMessage, _ known: ClientPresenter) -> Bool {
        let isTooMuch = connection.isCrowded || pendingChecks >= ProtocolLimits.checksOfGuest
        guard let pause = pause ?? (isTooMuch ? beginPause() : nil) else { return false }
        lastSequence += 1
        guard pause.presentersWithGap.insert(message.presenter).inserted,
            services.guest(connection.peer) == nil,
            case .notice(let notice, _) = message.content
        else { return true }
        // The gap, which is a notice without a name, is queued where the first withheld notice would be. So it is sent
        // before later notices. A guest gets the gap after the pause, when the guest's rights are checked.
        let gap = {
            try self.encoder.encode(
                notice, presenter: message.presenter.rawValue, at: known.document.path, movedTo: nil,
                turn: message.accessSession.rawValue, sequence: self.lastSequence, message.cause,
                subitem: nil,
                newSubitem: nil)
        }
        connection.push(encoded: gap, ifStill: { !pause.isLong })
        return true
    }

    /// Begins a pause. During the pause, the engine records no changes in presented directories for this client.
    private func beginPause() -> NoticePause? {
        guard let mailbox else { return nil }
        let pause = NoticePause()
        self.pause = pause
        services.engine.pause(mailbox)
        // The pause ends when the messages that wait now are written. After that, the engine reports changes again.
        connection.whenWritten { [weak self] in self?.endPause() }
        return pause
    }

    private func endPause() {
        guard let pause else { return }
        let isGuest = services.guest(connection.peer) != nil
        guard isGuest || NIODeadline.now() < shortPauseDeadline else { return resume() }
        pause.isLong = true
        connection.loop.assumeIsolated().scheduleTask(in: Self.pausePerPresenter * presented.count) {
            [weak self] in self?.resume()
        }
    }

    private func resume() {
        guard let pause, let mailbox else { return }
        // The messages in the mailbox are from the time of the pause. Messages about names in directories are dropped, because
        // a gap tells the presenter to read the directory again.
        for message in mailbox.take() { deliver(message) }
        checkNext()
        self.pause = nil
        shortPauseDeadline = .now() + Self.pausePerPresenter * presented.count
        services.engine.resume(
            mailbox, behind: pause.isLong ? pause.presentersWithGap : [],
            told: pause.isLong ? [] : pause.presentersWithGap)
    }

    /// Queues a message to a guest until the guest's rights are checked.
    ///
    /// If too many messages wait, a notice loses its name and is sent later, and a question counts as answered with consent.
    private func queueCheck(
        at message: PresenterMessage, about document: any TrackedDocument, for guest: Guest
    ) {
        let isCrowded =
            pendingChecks >= ProtocolLimits.checksOfGuest || coalescedNotices[message.presenter] != nil
        switch message.content {
        case .request(let question, _, _, _):
            guard !isCrowded else { return services.engine.consent(question, of: message.presenter) }
            check(message, about: document, for: guest)
        case .notice(.reacquire, _):
            // This notice ends an access session. The other notices of that session must be sent before it.
            checkCoalesced(of: message.presenter, for: guest)
            check(message, about: document, for: guest)
        case .notice(let notice, _) where isCrowded:
            coalescedNotices[message.presenter, default: [:]][notice] = message.withoutSubitem
        case .notice: check(message, about: document, for: guest)
        }
    }

    /// Checks on the work queue whether a guest may be sent a message. The work queue does not change the order of the
    /// messages.
    ///
    /// Each message is checked, because the rights of the guest can have changed since the registration.
    private func check(_ message: PresenterMessage, about document: any TrackedDocument, for guest: Guest) {
        pendingChecks += 1
        nextChecks.append((message, document))
        if nextChecks.count >= Self.checksAtOnce { checkNext() }
    }

    private func checkNext() {
        guard !nextChecks.isEmpty, let guest = services.guest(connection.peer) else { return }
        let next = nextChecks
        nextChecks = []
        connection.onWorkQueue { [services] _, _ throws(ProtocolFailure) in
            next.map { guest.verdict(on: $0.message, about: $0.document, in: services) }
        } then: { result in
            self.pendingChecks -= next.count
            if self.pendingChecks < ProtocolLimits.checksOfGuest {
                for presenter in self.coalescedNotices.keys.sorted() {
                    self.checkCoalesced(of: presenter, for: guest)
                }
                self.checkNext()
            }
            guard case .success(let verdicts) = result else { return }
            for ((message, _), verdict) in zip(next, verdicts) { self.apply(verdict, on: message) }
        }
    }

    private func apply(_ verdict: Guest.MessageVerdict, on message: PresenterMessage) {
        guard let known = presented[message.presenter] else { return }
        switch verdict {
        case .deliver(let path, let names): deliver(message, to: known, at: path, names)
        case .deliverGap(let path): deliver(message.withoutSubitem, to: known, at: path, MessagePaths())
        case .consent(let question): services.engine.consent(question, of: message.presenter)
        case .drop: break
        }
    }

    /// Queues checks for notices of a presenter. These notices have lost their names, because too many checks were
    /// waiting. The checks of all earlier messages come before these checks.
    private func checkCoalesced(of presenter: PresenterID, for guest: Guest) {
        guard let gaps = coalescedNotices.removeValue(forKey: presenter), let known = presented[presenter]
        else {
            return
        }
        for notice in Self.order { gaps[notice].map { check($0, about: known.document, for: guest) } }
    }

    /// The order in which the notices of an access session are sent.
    private static let order: [PresenterNotice] = [
        .didMove, .didChange, .didGain, .didLose, .didResolve, .subitemDidAppear, .subitemDidMove,
        .subitemDidChange, .subitemDidGain, .subitemDidLose, .subitemDidResolve,
    ]

    private func deliver(
        _ message: PresenterMessage, to known: ClientPresenter, at path: [UInt8], _ names: MessagePaths
    ) {
        switch message.content {
        case .request(let question, let request, _, let deadline):
            let asked = QuestionTable.SentQuestion(
                id: question, presenter: message.presenter, deadline: deadline)
            ask(request, asked, message, path, names.now)
        case .notice(.didMove, _):
            // The client was already sent this path: the move was undone, or an earlier notice contained the new path.
            guard path != known.path else { return }
            presented[message.presenter]?.path = path
            tell(.didMove, message, known.path, movedTo: path)
        case .notice(let notice, let subitem?): tell(notice, of: subitem, names, message, path)
        // The document can have a new path that a guest may not see. A guest therefore gets the path that it was last sent.
        case .notice(.reacquire, _) where services.guest(connection.peer) != nil:
            tell(.reacquire, message, known.path)
        case .notice(let notice, nil): tell(notice, message, path)
        }
    }

    private func ask(
        _ request: PresenterRequest, _ question: QuestionTable.SentQuestion, _ message: PresenterMessage,
        _ path: [UInt8], _ subitem: [UInt8]?
    ) {
        let now = Engine.now
        guard let id = questions.ask(question, at: now) else {
            // The question is not sent, and does not count as answered with consent. The question therefore times out, and
            // unsaved contents are preserved.
            return connection.logOnce(
                .manyQuestions, "it owes answers to \(ProtocolLimits.questions) requests, and is sent no more"
            )
        }
        let parameters = PresenterQuestion.Parameters(
            presenter: message.presenter.rawValue, path: path, turn: message.accessSession.rawValue,
            deadline: question.deadline.since(now).milliseconds, cause: CauseForm(message.cause),
            subitem: subitem)
        connection.push(.question(.number(id), PresenterQuestion(request, parameters)))
    }

    /// Sends a notice about an item in a presented directory. If the item moved, the notice has its former and its new name.
    private func tell(
        _ notice: PresenterNotice, of subitem: Notice.Subitem, _ names: MessagePaths,
        _ message: PresenterMessage,
        _ path: [UInt8]
    ) {
        guard subitem.former != nil else { return tell(notice, message, path, subitem: names.now) }
        tell(notice, message, path, subitem: names.before, newSubitem: names.now)
    }

    private func tell(
        _ notice: PresenterNotice, _ message: PresenterMessage, _ path: [UInt8],
        movedTo newPath: [UInt8]? = nil, subitem: [UInt8]? = nil, newSubitem: [UInt8]? = nil
    ) {
        lastSequence += 1
        connection.push(encoded: {
            try encoder.encode(
                notice, presenter: message.presenter.rawValue, at: path, movedTo: newPath,
                turn: message.accessSession.rawValue, sequence: lastSequence, message.cause, subitem: subitem,
                newSubitem: newSubitem, version: message.version)
        })
    }
}

extension PresenterMessage {
    /// Whether the message is a notice about an item in a presented directory.
    fileprivate var concernsSubitem: Bool {
        if case .notice(_, .some) = content { true } else { false }
    }
}

/// The new and the former path of an item in a presented directory, at the time when the guest's rights to see them were
/// checked.
struct MessagePaths: Sendable {
    var now: [UInt8]?
    var before: [UInt8]?

    init() {}

    init(of message: PresenterMessage, _ documents: any DocumentSource) {
        switch message.content {
        case .request(_, _, let subitem, _): now = subitem.flatMap { documents.path(of: $0, at: Place()) }
        case .notice: (now, before) = (message.paths?.now, message.paths?.before)
        }
    }
}
