// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// A presenter from its registration to its removal. Messages of the daemon are delivered on the presenter's queue.
///
///     without a URL ──its URL is known──▶ registered ──connection lost──▶ lost ──new connection──▶ registered
///          │ └──its URL is known, no daemon is there─────────────────────▶ │
///          └──────────────────────────────────┴─────────────removed──────────┴──▶ removed
final class Registration: Sendable {
    enum RegistrationState {
        case new
        case registering
        case registered(MountConnection, number: UInt64)
        case lost(MountConnection)
        case removed
    }

    struct State {
        var registrationState = RegistrationState.new
        /// The last path of the item that the daemon has sent, relative to the root of the mount.
        var path: [UInt8] = []
        var isDirectory = false
        var isPackage = false
        /// Whether a failure was logged since the last registration that succeeded.
        var hasLoggedFailure = false
        /// Whether the presenter has changes that are not on the disk.
        var isUnsaved = false
        /// The messages that the presenter was found not to implement so far.
        var missing: PresenterMessages = []
        /// Moves that the presenter is not notified of yet, because the notice is still on its queue. `from` is the URL that
        /// the presenter uses until the notice, and `to` is the new URL.
        var moves: [(from: URL, to: URL)] = []
        /// The blocks that the presenter passed when it relinquished the item, by the number of the access session. The blocks
        /// are called when that session ends.
        var reacquirers: [UInt64: [@Sendable () -> Void]] = [:]
        /// For each access session, the number of questions to relinquish the item that the presenter has not answered yet.
        var relinquishing: [UInt64: Int] = [:]
        /// Access sessions that ended before the presenter answered a question to relinquish the item. When the presenter
        /// answers, its block is called without waiting.
        var endedTurns: Set<UInt64> = []

        /// Forgets all access sessions, because their connection was lost. Returns the blocks of these sessions, which the
        /// caller must call.
        mutating func forgetTurns() -> [@Sendable () -> Void] {
            defer { (reacquirers, relinquishing, endedTurns) = ([:], [:], []) }
            return Array(reacquirers.values.joined())
        }
    }

    let presenter: UncheckedSendableBox<any FilePresenter>
    let purpose: String
    let queue: OperationQueue
    private let state = Mutex(State())

    init(of presenter: any FilePresenter, purpose: String) {
        self.presenter = UncheckedSendableBox(presenter)
        self.purpose = purpose
        queue = presenter.presentedItemOperationQueue
    }

    /// Whether the presenter was registered on this connection, and must be registered again because the connection was lost.
    func isLost(on connection: MountConnection) -> Bool {
        state.withLock {
            if case .lost(let former) = $0.registrationState { former === connection } else { false }
        }
    }

    /// Whether the presenter was never registered, for example because it has no URL yet.
    var isNew: Bool { state.withLock { if case .new = $0.registrationState { true } else { false } } }

    /// Registers the presenter at the daemon, if the presenter has a URL. Returns whether this call has registered the
    /// presenter.
    @discardableResult
    func register() throws(FileCoordinationError) -> Bool {
        // The moves are read before the URL. In the other order, the presenter could be notified of a move between the two
        // reads. The URL would then be old, and the list of moves would not contain the move any more.
        let moves = state.withLock { $0.moves }
        guard let presented = presenter.value.presentedItemURL else { return false }
        let url = Self.followed(presented, moves)
        let former: RegistrationState? = state.withLock { state in
            switch state.registrationState {
            case .new, .lost:
                defer { state.registrationState = .registering }
                return state.registrationState
            case .registering, .registered, .removed: return nil
            }
        }
        guard let former else { return false }
        var left = former
        var location: FileLocation?
        do throws(FileCoordinationError) {
            let found = try FileLocation(url)
            location = found
            state.withLock { $0.isDirectory = found.isDirectory }
            // To connect fails if no daemon runs now. The presenter is then registered when the next daemon starts.
            left = .lost(found.connection)
            try found.connection.connect()
            left = former
            let server = presenter.value.presentedItemServerProcess.map { ProcessForm(pid: $0) }
            try found.connection.register(
                self,
                RegisterParameters(path: found.pathInMount, messages: .all, purpose: purpose, savedBy: server)
            )
            return true
        } catch {
            // If the daemon ended before its reply, the presenter is registered when the next daemon starts.
            if let location, error.code == .disconnected { left = .lost(location.connection) }
            state.withLock { if case .registering = $0.registrationState { $0.registrationState = left } }
            if case .lost(let connection) = left { connection.reconnectLater() }
            throw error
        }
    }

    /// Records the daemon's reply to the registration. Returns false if the program has removed the presenter before the reply.
    func registered(_ result: RegisterResult, on connection: MountConnection) -> Bool {
        let (isThere, isUnsaved): (Bool, Bool) = state.withLock { state in
            if case .removed = state.registrationState { return (false, false) }
            state.registrationState = .registered(connection, number: result.presenter)
            state.hasLoggedFailure = false
            state.path = PathForm(result.path, result.pathBytes).bytes ?? []
            state.isPackage = result.isPackage
            return (true, state.isUnsaved)
        }
        if isUnsaved { tell(isUnsaved, of: result.presenter, on: connection) }
        return isThere
    }

    /// Records whether the presenter has changes that are not on the disk, and sends this to the daemon.
    func noteUnsaved(_ isUnsaved: Bool) {
        let registrationState: RegistrationState? = state.withLock { state in
            guard state.isUnsaved != isUnsaved else { return nil }
            state.isUnsaved = isUnsaved
            return state.registrationState
        }
        if case .registered(let connection, let number) = registrationState {
            tell(isUnsaved, of: number, on: connection)
        }
    }

    private func tell(_ isUnsaved: Bool, of presenter: UInt64, on connection: MountConnection) {
        connection.tell(.unsaved(UnsavedParameters(presenter: presenter, isUnsaved: isUnsaved)))
    }

    func takeFailureToLog() -> Bool {
        state.withLock { state in
            defer { state.hasLoggedFailure = true }
            return !state.hasLoggedFailure
        }
    }

    func remove() {
        let former = state.withLock { state in
            defer {
                state.registrationState = .removed
                _ = state.forgetTurns()
            }
            return state.registrationState
        }
        if case .registered(let connection, let number) = former { connection.remove(number) }
    }

    func connectionLost() {
        let reacquirers = state.withLock { state in
            if case .registered(let connection, _) = state.registrationState {
                state.registrationState = .lost(connection)
            }
            return state.forgetTurns()
        }
        // The programs for which the presenter relinquished the item have lost their accesses together with the connection. So
        // the presenter may use the item again.
        for reacquirer in reacquirers { queue.addOperation(reacquirer) }
    }

    /// Tells the presenter that its item has changed. The events between the former and the new registration are unknown, so
    /// the presenter has to read the item again.
    func deliverGap() {
        let (connection, path, isDirectory, isPackage) = state.withLock {
            state -> (MountConnection?, [UInt8], Bool, Bool) in
            guard case .registered(let connection, _) = state.registrationState else {
                return (nil, [], false, false)
            }
            return (connection, state.path, state.isDirectory, state.isPackage)
        }
        guard let connection else { return }
        deliver(.didChange) { $0.presentedItemDidChange() }
        guard isDirectory, !isPackage else { return }
        let url = connection.url(path, isDirectory: true)
        deliver(.subitemDidChange) { $0.presentedSubitemDidChange(at: url) }
    }

    /// Returns the new URL for a URL that the program used before the presenter was notified of a move.
    func current(_ url: URL) -> URL {
        Self.followed(url, state.withLock { $0.moves })
    }

    private static func followed(_ url: URL, _ moves: [(from: URL, to: URL)]) -> URL {
        moves.reduce(url) { url, move in url.path == move.from.path ? move.to : url }
    }
}

// Delivering notices.
extension Registration {
    func receive(_ noticeMessage: PresenterNoticeMessage, on connection: MountConnection) {
        let parameters = noticeMessage.parameters
        switch noticeMessage.notice {
        case .reacquire: reacquire(parameters.turn)
        case .didChange: deliver(.didChange) { $0.presentedItemDidChange() }
        case .didMove: move(to: parameters.bytesOfNewPath, on: connection)
        case .subitemDidAppear, .subitemDidChange, .subitemDidMove:
            receiveSubitem(noticeMessage.notice, parameters.subitem, parameters.newSubitem, on: connection)
        case .didGain, .didLose, .didResolve: receiveVersion(noticeMessage, on: connection)
        case .subitemDidGain, .subitemDidLose, .subitemDidResolve:
            receiveSubitemVersion(noticeMessage, on: connection)
        }
    }

    private func receiveVersion(_ noticeMessage: PresenterNoticeMessage, on connection: MountConnection) {
        let parameters = noticeMessage.parameters
        // Without the version, the client missed notices. The presenter then examines its item again.
        guard let id = parameters.version, let path = parameters.bytesOfPath else {
            return deliver(.didChange) { $0.presentedItemDidChange() }
        }
        let version = FileVersion(StoredVersion(id, of: path, on: connection))
        switch noticeMessage.notice {
        case .didGain: deliver(.didGain) { $0.presentedItemDidGain(version) }
        case .didLose: deliver(.didLose) { $0.presentedItemDidLose(version) }
        default: deliver(.didResolve) { $0.presentedItemDidResolveConflict(version) }
        }
    }

    private func receiveSubitemVersion(
        _ noticeMessage: PresenterNoticeMessage, on connection: MountConnection
    ) {
        let parameters = noticeMessage.parameters
        guard let id = parameters.version, let path = parameters.subitem?.bytes else {
            return receiveGap(on: connection)
        }
        let version = FileVersion(StoredVersion(id, of: path, on: connection))
        let url = connection.url(path, isDirectory: false)
        switch noticeMessage.notice {
        case .subitemDidGain: deliver(.subitemDidGain) { $0.presentedSubitem(at: url, didGain: version) }
        case .subitemDidLose: deliver(.subitemDidLose) { $0.presentedSubitem(at: url, didLose: version) }
        default: deliver(.subitemDidResolve) { $0.presentedSubitem(at: url, didResolve: version) }
        }
    }

    private func move(to newPath: [UInt8]?, on connection: MountConnection) {
        guard let newPath else { return }
        let (former, url) = state.withLock { state in
            let former = connection.url(state.path, isDirectory: state.isDirectory)
            state.path = newPath
            let url = connection.url(newPath, isDirectory: state.isDirectory)
            state.moves.append((former, url))
            return (former, url)
        }
        let presenter = presenter
        queue.addOperation { [self] in
            Delivery.$current.withValue(delivery(of: .didMove)) {
                presenter.value.presentedItemDidMove(to: url)
            }
            state.withLock { state in
                // After moves from A to B, back to A, and to B once more, the list contains the move from A to B twice. So only
                // the first of two equal moves is removed.
                let told = state.moves.firstIndex { $0.from == former && $0.to == url }
                if let told { state.moves.remove(at: told) }
            }
        }
    }

    private func receiveSubitem(
        _ notice: PresenterNotice, _ subitem: PathForm?, _ newSubitem: PathForm?,
        on connection: MountConnection
    ) {
        guard let path = subitem?.bytes else {
            return receiveGap(on: connection)
        }
        let url = connection.url(path, isDirectory: false)
        switch notice {
        case .subitemDidAppear:
            deliver(.subitemDidAppear, orChange: true) { $0.presentedSubitemDidAppear(at: url) }
        case .subitemDidMove:
            // Without the new name, the presenter cannot follow the move, and has to read the directory again.
            guard let newPath = newSubitem?.bytes else { return receiveGap(on: connection) }
            let newURL = connection.url(newPath, isDirectory: false)
            deliver(.subitemDidMove, orChange: true) { $0.presentedSubitem(at: url, didMoveTo: newURL) }
        default: deliver(.subitemDidChange, orChange: true) { $0.presentedSubitemDidChange(at: url) }
        }
    }

    /// Tells the presenter that some events are missing, so that it reads the directory again.
    private func receiveGap(on connection: MountConnection) {
        let url = state.withLock { connection.url($0.path, isDirectory: true) }
        deliver(.subitemDidChange, orChange: true) { $0.presentedSubitemDidChange(at: url) }
    }

    /// Calls the presenter on its queue, unless it does not implement the message.
    ///
    /// If `orChange` is true and the item is a package, a presenter without this message gets
    /// ``FilePresenter/presentedItemDidChange()`` in its place.
    private func deliver(
        _ message: PresenterMessages, orChange: Bool = false,
        _ body: @escaping @Sendable (any FilePresenter) -> Void
    ) {
        let (isMissing, fallsBack) = state.withLock {
            ($0.missing.contains(message), orChange && $0.isPackage)
        }
        if isMissing {
            if fallsBack { deliver(.didChange) { $0.presentedItemDidChange() } }
            return
        }
        let presenter = presenter
        queue.addOperation { [self] in
            Delivery.$current.withValue(delivery(of: message)) { body(presenter.value) }
            // Possibly this delivery has shown that the presenter does not implement the message.
            guard fallsBack, state.withLock({ $0.missing.contains(message) }) else { return }
            Delivery.$current.withValue(delivery(of: .didChange)) { presenter.value.presentedItemDidChange() }
        }
    }

    func delivery(of message: PresenterMessages) -> Delivery {
        Delivery(of: message, to: presenter.value) { [weak self] in
            self?.state.withLock { state in _ = state.missing.insert(message) }
        }
    }
}

// Delivering questions.
extension Registration {
    func receive(_ question: PresenterQuestion, _ id: MessageID, on connection: MountConnection) {
        let message = PresenterMessages(question.request)
        guard !state.withLock({ $0.missing.contains(message) }) else {
            return connection.answer(id, of: connection.generation)
        }
        let incomingQuestion = IncomingQuestion(
            question.request, id, of: question.parameters.presenter,
            mayAnswerLate: question.request == .save && question.parameters.cause.operation == "read",
            on: connection
        ) { [self] asked in
            ask(question, asked, on: connection)
        }
        if question.request.isRelinquishment {
            state.withLock { $0.relinquishing[question.parameters.turn, default: 0] += 1 }
        }
        BlockedQueueTable.shared.enqueue(incomingQuestion, on: queue)
    }

    private func ask(_ question: PresenterQuestion, _ asked: IncomingQuestion, on connection: MountConnection)
    {
        let presenter = presenter.value
        let turn = question.parameters.turn
        Delivery.$current.withValue(delivery(of: PresenterMessages(question.request))) {
            AccessContext.$current.withValue(AccessContext.current.answering(asked)) {
                switch question.request {
                case .relinquishToReader:
                    presenter.relinquishPresentedItem(toReader: { self.relinquish(asked, turn, $0) })
                case .relinquishToWriter:
                    presenter.relinquishPresentedItem(toWriter: { self.relinquish(asked, turn, $0) })
                case .save: presenter.savePresentedItemChanges { asked.answer($0) }
                case .accommodateDeletion: presenter.accommodatePresentedItemDeletion { asked.answer($0) }
                case .accommodateSubitemDeletion:
                    let path = question.parameters.subitem?.bytes ?? question.parameters.bytesOfPath ?? []
                    let url = connection.url(path, isDirectory: false)
                    presenter.accommodatePresentedSubitemDeletion(at: url) { asked.answer($0) }
                }
            }
        }
    }

    /// Stores the presenter's block before it answers the question. If the access session ends right after the answer, the
    /// block is already stored and is called.
    private func relinquish(
        _ asked: IncomingQuestion, _ turn: UInt64, _ reacquirer: (@Sendable () -> Void)?
    ) {
        guard asked.markRelinquished() else { return }
        let isOver = state.withLock { state in
            // If the connection was lost before the answer, the access session ended with the connection.
            guard asked.isConnected, let count = state.relinquishing[turn] else { return true }
            state.relinquishing[turn] = count > 1 ? count - 1 : nil
            if state.endedTurns.contains(turn) {
                if count == 1 { state.endedTurns.remove(turn) }
                return true
            }
            state.reacquirers[turn, default: []].append(reacquirer ?? {})
            return false
        }
        asked.answer(nil)
        if isOver, let reacquirer { queue.addOperation(reacquirer) }
    }

    /// Ends an access session: calls the blocks that the presenter passed in this session. An access session ends only once,
    /// even if the presenter relinquished the item several times in it.
    private func reacquire(_ turn: UInt64) {
        let reacquirers = state.withLock { state in
            // The presenter can still relinquish the item, as its answer to a question of this ended access session. Its block
            // is then called without waiting.
            if state.relinquishing[turn] != nil { state.endedTurns.insert(turn) }
            return state.reacquirers.removeValue(forKey: turn) ?? []
        }
        for reacquirer in reacquirers { queue.addOperation(reacquirer) }
    }
}
