// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore

/// The presenters of one connection, what they are told and what they answer. On the event loop only.
final class ConnectedPresenters {
    private struct Presented {
        let document: any TrackedDocument
        let purpose: Purpose
        /// What the client knows the document by.
        var path: [UInt8]
    }

    private unowned let connection: ClientConnection
    private let service: Service
    private var mailbox: Mailbox?
    private var presented: [PresenterID: Presented] = [:]
    private var questions: Questions
    private var lastSequence: UInt64 = 0

    /// Registrations that are not answered yet; and messages that came for them, or for presenters removed.
    private var registering = 0
    private var early: [PresenterMessage] = []
    /// How many presenters are counted, if the client is a guest.
    private var taken = 0
    /// Messages for a guest that are being checked; and who gets a gap in place of those for which there was no room.
    private var checking = 0
    /// The last one that the client was told of. Their numbers grow, and they are told of in the order of their registrations.
    private var lastAdded = PresenterID(0)
    private var unchecked: [PresenterID: [PresenterNotice: PresenterMessage]] = [:]
    /// Messages that the desk looks at next, all in one job.
    private var uncheckedNext: [(message: PresenterMessage, document: any TrackedDocument)] = []
    private var encoder = NewsEncoder()
    /// Nil if the client gets on with what happens in the directories that it shows.
    private var pause: Pause?
    private var mayPauseShortly = NIODeadline.uptimeNanoseconds(0)

    /// While the client has more to read than it should: it is told of no names until it has, and then that there was more.
    private final class Pause {
        /// Presenters that something was kept from.
        var leftOut: Set<PresenterID> = []
        /// Whether it lasts longer than the client takes to read, so that what waits to tell of it would come too early.
        var isLong = false
    }

    /// How long a pause is, for each presenter, if there was another one just before: to begin and to end one costs others something.
    private static let pausePerPresenter = TimeAmount.microseconds(500)
    /// Messages to a guest that are looked at in one go.
    private static let checksAtOnce = 64

    init(of connection: ClientConnection, in service: Service) {
        self.connection = connection
        self.service = service
        questions = Questions(patience: service.engine.bounds.progress)
    }

    var count: Int { presented.count }

    func purpose(of presenter: UInt64) throws(Failure) -> Purpose {
        guard let known = presented[PresenterID(presenter)] else {
            throw .notFound("you have no presenter \(presenter)")
        }
        return known.purpose
    }

    /// What a request of ours asks that is not answered.
    func question(_ id: MessageID) -> QuestionID? { questions.question(id)?.id }

    func wasAsked(_ id: MessageID) -> Bool { questions.wasAsked(id) }

    func register(_ parameters: RegisterParameters, answering id: MessageID) {
        guard presented.count + registering < ProtocolLimits.presenters else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.presenters) presenters"))
        }
        guard takeRoom() else {
            return connection.answer(
                id,
                .tooMany("a user who is a guest has at most \(ProtocolLimits.presentersOfGuest) presenters"))
        }
        let purpose =
            parameters.purpose.map { connection.peer.purpose(named: $0) }
            ?? Purpose("presenter:\(service.registrations.next())")
        let mailbox = mailbox ?? makeMailbox()
        self.mailbox = mailbox
        registering += 1
        connection.begin(id)
        connection.atDesk { holdings, process throws(Failure) in
            try holdings.register(parameters, as: purpose, watching: process, in: mailbox)
        } then: { result in
            self.registering -= 1
            if case .failure = result { self.giveBackRoom() }
            self.connection.finish(
                id, result.map { self.add($0, parameters, purpose) }.map { .register($0) })
            self.deliverEarly()
        }
    }

    /// What many have to be told of costs everybody, so a guest's presenters are counted over its connections.
    private func takeRoom() -> Bool {
        guard service.guest(connection.peer) != nil else { return true }
        guard service.presentersOfGuests.take(1, of: connection.peer.user) else { return false }
        taken += 1
        return true
    }

    private func giveBackRoom(_ count: Int = 1) {
        guard service.guest(connection.peer) != nil else { return }
        taken -= count
        service.presentersOfGuests.giveBack(count, of: connection.peer.user)
    }

    private func makeMailbox() -> Mailbox {
        let presenters = NIOLoopBound(self, eventLoop: connection.loop)
        return Mailbox(namer: service.documents) { [door = connection.door] in
            door.run { presenters.value.deliver() }
        }
    }

    private func add(
        _ registered: Holdings.Registered, _ parameters: RegisterParameters, _ purpose: Purpose
    ) -> RegisterResult {
        lastAdded = registered.presenter
        presented[registered.presenter] = Presented(
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
        giveBackRoom()
        connection.begin(id)
        connection.atDesk { holdings, _ throws(Failure) in
            holdings.remove(presenter)
        } then: { result in
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    /// An answer to nothing, a second answer and one that is far too late change nothing.
    func take(_ answer: ClientAnswer) {
        guard let id = answer.id, let question = questions.takeAnswered(id) else {
            return connection.noteOnce(.strayAnswer, "it answered a question nobody asked")
        }
        if let words = answer.refusal {
            service.refusals.note(words, answer.origin, of: question.presenter, at: Engine.now)
        }
        // What a guest cannot do stops nobody: others may wait for the same answer who need not ask it.
        let isRefused = answer.refusal != nil && service.guest(connection.peer) == nil
        service.engine.answer(question.id, of: question.presenter, isRefused ? .failed : .done)
    }

    func progress(_ id: MessageID) {
        guard let question = questions.question(id) else {
            return connection.noteOnce(.strayAnswer, "it is at work on a question nobody asked")
        }
        // A guest has the time that it has, and no more.
        guard service.guest(connection.peer) == nil else { return }
        service.engine.progress(question.id)
    }

    /// At once, so that it is in order with the answers: who has saved says so first.
    func noteUnsaved(_ parameters: UnsavedParameters) {
        let presenter = PresenterID(parameters.presenter)
        guard presented[presenter] != nil else {
            return connection.noteOnce(
                .strayNotice,
                "it has unsaved changes of presenter \(presenter.rawValue), which is none of its own")
        }
        service.engine.noteUnsaved(parameters.isUnsaved, by: presenter)
    }

    /// Nothing is sent any more; what the connection owes is taken care of by its holdings.
    /// Returns what gives back the room it took, from any thread.
    func close() -> @Sendable () -> Void {
        // It holds us.
        mailbox = nil
        presented = [:]
        (early, uncheckedNext) = ([], [])
        defer { taken = 0 }
        return { [taken, tally = service.presentersOfGuests, user = connection.peer.user] in
            if taken > 0 { tally.giveBack(taken, of: user) }
        }
    }
}

// What goes out.
extension ConnectedPresenters {
    private func deliver() {
        for message in mailbox?.take() ?? [] { deliver(message) }
        checkNext()
        // So many came at once that no more are told.
        if pause == nil, mailbox?.isPaused ?? false { _ = beginPause() }
    }

    /// In the order in which they came, after the reply that tells the client who they are for.
    private func deliverEarly() {
        let messages = early
        early = []
        for message in messages { deliver(message) }
        checkNext()
    }

    private func deliver(_ message: PresenterMessage) {
        guard let known = presented[message.presenter] else {
            return deliverToUnknown(message)
        }
        if message.isOfName, leaveOut(message, known) { return }
        guard let guest = service.guest(connection.peer) else {
            return deliver(message, to: known, at: known.document.path, Names(of: message, service.documents))
        }
        look(at: message, about: known.document, for: guest)
    }

    /// To one that is being registered, or was removed: that owes nothing, though the engine may not have heard of it yet.
    private func deliverToUnknown(_ message: PresenterMessage) {
        if registering > 0, message.presenter > lastAdded { return early.append(message) }
        if case .request(let question, _, _, _) = message.content {
            service.engine.consent(question, of: message.presenter)
        }
    }

    /// Returns whether the presenter is told that there was something, and not what it was.
    private func leaveOut(_ message: PresenterMessage, _ known: Presented) -> Bool {
        let isTooMuch = connection.isCrowded || checking >= ProtocolLimits.checksOfGuest
        guard let pause = pause ?? (isTooMuch ? beginPause() : nil) else { return false }
        lastSequence += 1
        guard pause.leftOut.insert(message.presenter).inserted, service.guest(connection.peer) == nil,
            case .notice(let notice, _) = message.content
        else { return true }
        // In its place, so that what comes after it does. What a guest may hear is looked at when the pause is over.
        let gap = {
            try self.encoder.encode(
                notice, presenter: message.presenter.rawValue, at: known.document.path, movedTo: nil,
                turn: message.turn.rawValue, sequence: self.lastSequence, message.cause, subitem: nil,
                newSubitem: nil)
        }
        connection.push(encoded: gap, ifStill: { !pause.isLong })
        return true
    }

    /// What happens in directories from now on is not even noted for the client.
    private func beginPause() -> Pause? {
        guard let mailbox else { return nil }
        let pause = Pause()
        self.pause = pause
        service.engine.pause(mailbox)
        // Gaps come behind this, and so after the end: what happens then is told anew.
        connection.whenWritten { [weak self] in self?.endPause() }
        return pause
    }

    private func endPause() {
        guard let pause else { return }
        let isGuest = service.guest(connection.peer) != nil
        guard isGuest || NIODeadline.now() < mayPauseShortly else { return resume() }
        pause.isLong = true
        connection.loop.assumeIsolated().scheduleTask(in: Self.pausePerPresenter * presented.count) {
            [weak self] in self?.resume()
        }
    }

    private func resume() {
        guard let pause, let mailbox else { return }
        // What was decided before the pause is old news now.
        for message in mailbox.take() { deliver(message) }
        checkNext()
        self.pause = nil
        mayPauseShortly = .now() + Self.pausePerPresenter * presented.count
        service.engine.resume(
            mailbox, behind: pause.isLong ? pause.leftOut : [], told: pause.isLong ? [] : pause.leftOut)
    }

    /// What there is no room for, is told as a gap; what a presenter is asked then, it need not do.
    private func look(at message: PresenterMessage, about document: any TrackedDocument, for guest: Guest) {
        let isCrowded = checking >= ProtocolLimits.checksOfGuest || unchecked[message.presenter] != nil
        switch message.content {
        case .request(let question, _, _, _):
            guard !isCrowded else { return service.engine.consent(question, of: message.presenter) }
            check(message, about: document, for: guest)
        case .notice(.reacquire, _):
            // It ends a turn, so it comes after what happened in that.
            checkGaps(of: message.presenter, for: guest)
            check(message, about: document, for: guest)
        case .notice(let notice, _) where isCrowded:
            unchecked[message.presenter, default: [:]][notice] = message.withoutSubitem
        case .notice: check(message, about: document, for: guest)
        }
    }

    /// Each time, since rights change; and in order, since the desk does one thing after the other.
    private func check(_ message: PresenterMessage, about document: any TrackedDocument, for guest: Guest) {
        checking += 1
        uncheckedNext.append((message, document))
        if uncheckedNext.count >= Self.checksAtOnce { checkNext() }
    }

    private func checkNext() {
        guard !uncheckedNext.isEmpty, let guest = service.guest(connection.peer) else { return }
        let next = uncheckedNext
        uncheckedNext = []
        connection.atDesk { [service] _, _ throws(Failure) in
            next.map { guest.verdict(on: $0.message, about: $0.document, in: service) }
        } then: { result in
            self.checking -= next.count
            if self.checking < ProtocolLimits.checksOfGuest {
                for presenter in self.unchecked.keys.sorted() { self.checkGaps(of: presenter, for: guest) }
                self.checkNext()
            }
            guard case .success(let verdicts) = result else { return }
            for ((message, _), verdict) in zip(next, verdicts) { self.carryOut(verdict, on: message) }
        }
    }

    private func carryOut(_ verdict: Guest.Verdict, on message: PresenterMessage) {
        guard let known = presented[message.presenter] else { return }
        switch verdict {
        case .deliver(let path, let names): deliver(message, to: known, at: path, names)
        case .deliverGap(let path): deliver(message.withoutSubitem, to: known, at: path, Names())
        case .consent(let question): service.engine.consent(question, of: message.presenter)
        case .drop: break
        }
    }

    /// After everything that came before them.
    private func checkGaps(of presenter: PresenterID, for guest: Guest) {
        guard let gaps = unchecked.removeValue(forKey: presenter), let known = presented[presenter] else {
            return
        }
        for notice in Self.order { gaps[notice].map { check($0, about: known.document, for: guest) } }
    }

    /// As they are told in a turn.
    private static let order: [PresenterNotice] = [
        .didMove, .didChange, .subitemDidAppear, .subitemDidMove, .subitemDidChange,
    ]

    private func deliver(_ message: PresenterMessage, to known: Presented, at path: [UInt8], _ names: Names) {
        switch message.content {
        case .request(let question, let request, _, let deadline):
            let asked = Questions.Question(
                id: question, presenter: message.presenter, deadline: deadline)
            ask(request, asked, message, path, names.now)
        case .notice(.didMove, _):
            // Back where it was, or told before.
            guard path != known.path else { return }
            presented[message.presenter]?.path = path
            tell(.didMove, message, known.path, movedTo: path)
        case .notice(let notice, let subitem?): tell(notice, of: subitem, names, message, path)
        // Where it is by now, a guest may not be allowed to know.
        case .notice(.reacquire, _) where service.guest(connection.peer) != nil:
            tell(.reacquire, message, known.path)
        case .notice(let notice, nil): tell(notice, message, path)
        }
    }

    private func ask(
        _ request: PresenterRequest, _ question: Questions.Question, _ message: PresenterMessage,
        _ path: [UInt8], _ subitem: [UInt8]?
    ) {
        let now = Engine.now
        guard let id = questions.ask(question, at: now) else {
            // It is not let go: that would be its consent. Its time runs out, and what is unsaved is kept.
            return connection.noteOnce(
                .manyQuestions, "it owes answers to \(ProtocolLimits.questions) requests, and is sent no more"
            )
        }
        let parameters = PresenterQuestion.Parameters(
            presenter: message.presenter.rawValue, path: path, turn: message.turn.rawValue,
            deadline: question.deadline.since(now).milliseconds, cause: CauseForm(message.cause),
            subitem: subitem)
        connection.push(.question(.number(id), PresenterQuestion(request, parameters)))
    }

    /// What happened to something in a directory that is presented.
    private func tell(
        _ notice: PresenterNotice, of subitem: Notice.Subitem, _ names: Names, _ message: PresenterMessage,
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
                turn: message.turn.rawValue, sequence: lastSequence, message.cause, subitem: subitem,
                newSubitem: newSubitem)
        })
    }
}

extension PresenterMessage {
    /// Whether it says what happened to a name below what is presented.
    fileprivate var isOfName: Bool {
        if case .notice(_, .some) = content { true } else { false }
    }
}

/// What is below a presented directory, by its names when a message about it was looked at.
struct Names: Sendable {
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
