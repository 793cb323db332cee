// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
public import Foundation
import Synchronization

/// Accesses to files and directories in turn with everybody else who uses them.
///
/// Apple's `NSFileCoordinator`, which is an alias here: while an accessor runs, nobody else does what would disturb it,
/// programs that know nothing of coordination included; and before it runs, those who show the item have saved, made way, or
/// closed it. Use one coordinator for one thing the user does.
///
/// **Errors.** Where there is no coordinated directory the accessor is not called, and the error says so: a coordinator
/// never pretends. See ``FileCoordinationError``. An item that does not exist is no error: the accessor finds out.
///
/// **Threads.** A coordinator may be used on one thread at a time; ``cancel()`` and ``FileAccessIntent/url`` on any.
/// The methods that block do so until their accessor has returned; do not call them from a task: there are `async` ones.
///
/// **Limits.** A process has 1024 accesses and 1024 presenters in one mount; a call has 64 items.
open class FileCoordinator: NSObject, @unchecked Sendable {
    // @unchecked: everything that changes is in `state`, and the presenter is only compared and asked for its URL.
    private struct State {
        var isCancelled = false
        var purpose: String
        var isPurposeOwn = false
        var waiting: [AccessGroup] = []
        /// Those whose accessors run, for the moves that these announce.
        var running: [HeldAccess] = []
    }

    private let presenter: (any FilePresenter)?
    private let state: Mutex<State>

    /// - Parameter filePresenter: for whom the access is; it is neither asked nor told about what its coordinators do, and
    ///   they do not wait for one another.
    public init(filePresenter: (any FilePresenter)?) {
        presenter = filePresenter
        state = Mutex(
            State(
                purpose: filePresenter.map { LocalPresenterRegistry.shared.purpose(of: $0) }
                    ?? UUID().uuidString,
                isPurposeOwn: filePresenter != nil))
    }

    public convenience override init() { self.init(filePresenter: nil) }

    /// Coordinators with equal identifiers, in all programs of a user, never wait for one another.
    ///
    /// - Precondition: it is set once at most, is not empty, and the coordinator is linked to no presenter.
    open var purposeIdentifier: String {
        get { state.withLock { $0.purpose } }
        set {
            precondition(!newValue.isEmpty, "a purpose identifier is not empty")
            precondition(
                newValue.utf8.count <= ProtocolLimits.purposeBytes,
                "a purpose identifier has at most 256 bytes")
            state.withLock { state in
                precondition(
                    !state.isPurposeOwn,
                    presenter == nil
                        ? "a purpose identifier is set once"
                        : "a coordinator that is linked to a presenter has the presenter's purpose")
                state.purpose = newValue
                state.isPurposeOwn = true
            }
        }
    }

    /// Gives up waiting, and keeps this coordinator from ever beginning anything again.
    ///
    /// What waits fails with `CocoaError.userCancelled`; an accessor that runs is left alone. On any thread.
    open func cancel() {
        let waiting = state.withLock { state in
            state.isCancelled = true
            return state.waiting
        }
        for access in waiting { access.cancel() }
    }
}

// Presenters.
extension FileCoordinator {
    /// From now on others ask the presenter before they use its item, and tell it what they did.
    ///
    /// To miss nothing, add it inside the accessor of the read that loads the item. Where there is no coordinated directory,
    /// one line of the log says so; see ``register(_:)``.
    public static func addFilePresenter(_ filePresenter: any FilePresenter) {
        do throws(FileCoordinationError) {
            try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: true)
        } catch {
            LocalPresenterRegistry.logRegistrationFailure(error, about: filePresenter)
        }
    }

    /// The same, for those who want to know whether it worked.
    public static func register(_ filePresenter: any FilePresenter) throws(FileCoordinationError) {
        try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: false)
    }

    /// What it was asked and has not answered counts as consent; messages that are on its queue already still arrive. Does
    /// nothing if it was not added.
    public static func removeFilePresenter(_ filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.remove(filePresenter)
    }

    /// Says that a presenter shows changes that are not on the disk, or shows none any more.
    ///
    /// A program may look at the size of a file and then read that much of it. If the presenter has said that it has unsaved changes,
    /// it is asked to save them before such a program is told the size.
    /// Say that they begin before they are shown, and that they end before saving is completed. There is no such call on Apple's
    /// systems. Does nothing if the presenter was not added.
    public static func noteUnsavedChanges(_ hasUnsavedChanges: Bool, of filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.registration(of: filePresenter)?.noteUnsaved(hasUnsavedChanges)
    }

    /// Those of this process, in the order in which they were added.
    public static var filePresenters: [any FilePresenter] { LocalPresenterRegistry.shared.presenters }

    /// The request that is being answered by the code that calls this takes longer than usual: its time begins anew, up to
    /// 60 s in all. Does nothing outside a message that has to be answered.
    public static func reportProgress() {
        guard let question = AccessContext.current.question, question.isOpen else { return }
        question.connection.tell(.progress(question.id))
    }
}

// Doing it.
extension FileCoordinator {
    /// An access that waits, made known to ``cancel()``.
    func begin(
        _ items: [(url: URL, access: Access)], isBatch: Bool = false
    ) throws -> AccessGroup {
        let (isCancelled, purpose) = state.withLock { ($0.isCancelled, $0.purpose) }
        guard !isCancelled else { throw CocoaError(.userCancelled) }
        let group = try AccessGroup(
            items.map { (current($0.url), $0.access) }, purpose: purpose, isBatch: isBatch,
            within: AccessContext.current)
        let wasCancelled = state.withLock { state in
            state.waiting.append(group)
            return state.isCancelled
        }
        if wasCancelled { group.cancel() }
        return group
    }

    /// It waits no longer.
    func removeWaiting(_ group: AccessGroup) {
        state.withLock { state in state.waiting.removeAll { $0 === group } }
    }

    /// What the presenter takes for its URL may have moved, and the news be waiting on its queue.
    private func current(_ url: URL) -> URL {
        presenter.flatMap { LocalPresenterRegistry.shared.registration(of: $0) }?.current(url) ?? url
    }

    /// Runs an accessor with what was granted, and ends that.
    func run<Value>(_ granted: AccessGroup.GrantedAccesses, _ body: () throws -> Value) throws -> Value {
        try noteRunning(granted)
        defer { end(granted) }
        return try AccessContext.$current.withValue(AccessContext.current.within(granted.accesses)) {
            try body()
        }
    }

    func noteRunning(_ granted: AccessGroup.GrantedAccesses) throws(FileCoordinationError) {
        try granted.check()
        state.withLock { $0.running += granted.accesses }
    }

    /// A presenter that had no URL may have one now: it is registered before anybody else can do anything.
    func end(_ granted: AccessGroup.GrantedAccesses) {
        if let presenter, let registration = LocalPresenterRegistry.shared.registration(of: presenter),
            registration.isNew
        {
            do throws(FileCoordinationError) {
                try registration.register()
            } catch {
                LocalPresenterRegistry.logRegistrationFailure(error, about: presenter)
            }
        }
        state.withLock { state in
            state.running.removeAll { running in granted.accesses.contains { $0 === running } }
        }
        granted.end()
    }

    /// What was asked for, done.
    func perform<Value>(
        _ items: [(url: URL, access: Access)], _ body: ([URL]) throws -> Value
    ) throws -> Value {
        let group = try begin(items)
        defer { removeWaiting(group) }
        let granted = try group.wait()
        guard let uploadCopies = try UploadCopies(of: items.map(\.access), endingOnFailure: granted) else {
            return try run(granted) { try body(granted.urls) }
        }
        defer { uploadCopies.remove() }
        try granted.check()
        guard uploadCopies.coversAll else { return try run(granted) { try body(uploadCopies.urls) } }
        // Nobody has to wait for what is done with a copy.
        granted.end()
        return try body(uploadCopies.urls)
    }
}

// Announcing moves.
extension FileCoordinator {
    /// Says that an item is about to be moved, within a coordinated write of it.
    ///
    /// Nothing depends on it here; on Apple's platforms a sandbox does.
    public func item(at oldURL: URL, willMoveTo newURL: URL) { announce(oldURL, newURL) { .willMove($0) } }

    /// Says that an item was moved, within a coordinated write of it, so that its presenters follow.
    ///
    /// Renames in a coordinated directory are seen without it; other ways to move a document, as writing it anew under
    /// another name and deleting the former file, are not.
    public func item(at oldURL: URL, didMoveTo newURL: URL) { announce(oldURL, newURL) { .didMove($0) } }

    private func announce(
        _ oldURL: URL, _ newURL: URL, _ request: (MoveParameters) -> ControlProtocol.ClientRequest
    ) {
        do throws(FileCoordinationError) {
            let (old, new) = (try FileLocation(oldURL), try FileLocation(newURL))
            guard old.pathInMount != new.pathInMount || old.connection !== new.connection else { return }
            let access = state.withLock { state in
                state.running.last { $0.connection === old.connection && $0.isHeld }
            }
            guard let access, old.connection === new.connection else { return }
            let move = MoveParameters(access: access.number, from: old.pathInMount, to: new.pathInMount)
            let _: EmptyResult = try old.connection.call(request(move))
        } catch {
            // It concerns those who are told; the move itself is done, or not.
            NSLog("%@", "the move of \(oldURL.path) is not announced: \(error.message)")
        }
    }
}
