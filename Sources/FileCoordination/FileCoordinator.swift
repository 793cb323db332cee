// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
public import Foundation
import Synchronization

/// Coordinates accesses to files and directories with all other programs that use them.
///
/// It corresponds to Apple's `NSFileCoordinator`, which is an alias here. While an accessor runs, conflicting accesses
/// wait. Programs without file coordination wait, too. Before the accessor runs, presenters of the item have saved it,
/// relinquished it, or closed it. Use one coordinator for one operation of the user.
///
/// **Errors.** The accessor is not called for an item outside a coordinated directory, and the error says so. See
/// ``FileCoordinationError``. An item that does not exist is no error: the accessor finds out.
///
/// **Threads.** Use a coordinator on one thread at a time. ``cancel()`` and ``FileAccessIntent/url`` may be used on any
/// thread. The blocking methods return after their accessor has returned. Do not call them from a task: use the `async`
/// methods.
///
/// **Limits.** A process has at most 1024 accesses and 1024 presenters in one mount. A call has at most 64 items.
open class FileCoordinator: NSObject, @unchecked Sendable {
    // @unchecked: all mutable state is in `state`, and the presenter is only compared and asked for its URL.
    private struct State {
        var isCancelled = false
        var purpose: String
        var isPurposeOwn = false
        var waiting: [AccessGroup] = []
        /// Accesses with a running accessor, for the moves that it announces.
        var running: [HeldAccess] = []
    }

    private let presenter: (any FilePresenter)?
    private let state: Mutex<State>

    /// - Parameter filePresenter: The presenter for which the access is made. Its coordinators do not ask or notify it,
    ///   and they do not wait for each other.
    public init(filePresenter: (any FilePresenter)?) {
        presenter = filePresenter
        state = Mutex(
            State(
                purpose: filePresenter.map { LocalPresenterRegistry.shared.purpose(of: $0) }
                    ?? UUID().uuidString,
                isPurposeOwn: filePresenter != nil))
    }

    public convenience override init() { self.init(filePresenter: nil) }

    /// Coordinators with equal identifiers, in all programs of a user, never wait for each other.
    ///
    /// - Precondition: It is set at most once, is not empty, and the coordinator is linked to no presenter.
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

    /// Stops waiting, and prevents this coordinator from starting other accesses.
    ///
    /// Waiting accesses fail with `CocoaError.userCancelled`. A running accessor continues. May be called on any
    /// thread.
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
    /// Registers a presenter, which is then asked before other programs use its item, and notified of their changes.
    ///
    /// To miss no event, add it inside the accessor of the read that loads the item. If the item is in no coordinated
    /// directory, the log says so in one line. To receive the error, use ``register(_:)``.
    public static func addFilePresenter(_ filePresenter: any FilePresenter) {
        do throws(FileCoordinationError) {
            try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: true)
        } catch {
            LocalPresenterRegistry.logRegistrationFailure(error, about: filePresenter)
        }
    }

    /// Registers a presenter like ``addFilePresenter(_:)``, and throws if the registration fails.
    public static func register(_ filePresenter: any FilePresenter) throws(FileCoordinationError) {
        try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: false)
    }

    /// Removes a presenter.
    ///
    /// Its unanswered questions count as consent. Messages that are on its queue already still arrive. Does nothing if
    /// the presenter was not added.
    public static func removeFilePresenter(_ filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.remove(filePresenter)
    }

    /// Reports whether a presenter has changes that are not on the disk.
    ///
    /// A program may read the size of a file, and then read that many bytes. A presenter with unsaved changes is asked
    /// to save them before such a program receives the size. Report new changes before you present them. Report their
    /// end before saving is completed. Apple's systems have no such call. Does nothing if the presenter was not added.
    public static func noteUnsavedChanges(_ hasUnsavedChanges: Bool, of filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.registration(of: filePresenter)?.noteUnsaved(hasUnsavedChanges)
    }

    /// The presenters of this process, in the order in which they were added.
    public static var filePresenters: [any FilePresenter] { LocalPresenterRegistry.shared.presenters }

    /// Restarts the time limit of the question that the calling code is answering.
    ///
    /// The limit is 60 s in all. Does nothing outside a message that requires an answer.
    public static func reportProgress() {
        guard let question = AccessContext.current.question, question.isOpen else { return }
        question.connection.tell(.progress(question.id))
    }
}

// Performing accesses.
extension FileCoordinator {
    /// Creates a waiting access that ``cancel()`` can end.
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

    /// Removes an access that no longer waits.
    func removeWaiting(_ group: AccessGroup) {
        state.withLock { state in state.waiting.removeAll { $0 === group } }
    }

    /// Returns the present URL of an item that was moved while the presenter's notice of the move is still on its
    /// queue.
    private func current(_ url: URL) -> URL {
        presenter.flatMap { LocalPresenterRegistry.shared.registration(of: $0) }?.current(url) ?? url
    }

    /// Runs an accessor with granted accesses, and ends them.
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

    /// Ends granted accesses.
    ///
    /// A presenter without a URL may have one now. It is registered before other programs can use the item.
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

    /// Waits for the accesses and runs the accessor.
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
        // Other programs need not wait while the accessor uses a copy.
        granted.end()
        return try body(uploadCopies.urls)
    }
}

// Announcing moves.
extension FileCoordinator {
    /// Announces that an item is about to be moved, within a coordinated write of it.
    ///
    /// Truce does not need this call. On Apple's platforms a sandbox does.
    public func item(at oldURL: URL, willMoveTo newURL: URL) { announce(oldURL, newURL) { .willMove($0) } }

    /// Announces that an item was moved, within a coordinated write of it, so that its presenters follow.
    ///
    /// Truce detects renames in a coordinated directory without it. It cannot detect other moves, such as writing a
    /// document under a new name and deleting the former file.
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
            // Only the notices of presenters are lost: this call does not move the item.
            NSLog("%@", "the move of \(oldURL.path) is not announced: \(error.message)")
        }
    }
}
