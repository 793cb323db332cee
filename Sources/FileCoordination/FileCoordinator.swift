// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
public import Foundation
import Synchronization

/// Coordinates the accesses of this program to files and directories with all other programs that use them.
///
/// It corresponds to Apple's `NSFileCoordinator`, and has that name as an alias. While an accessor runs, conflicting accesses
/// of other programs wait, even if those programs do not use file coordination. Before the accessor runs, presenters of the
/// item are asked to save, relinquish or close it. Use one coordinator for one operation of the user.
///
/// **Errors.** If an item is outside a coordinated directory, the accessor is not called, and the error gives the reason. See
/// ``FileCoordinationError``. An item that does not exist causes no error: the accessor is called.
///
/// **Threads.** Use a coordinator on one thread at a time. ``cancel()`` and ``FileAccessIntent/url`` may be used on any thread.
/// The blocking methods return after their accessor has returned. In a task, use the `async` methods instead.
///
/// **Limits.** A process has at most 1024 accesses and 1024 presenters in one mount. A call has at most 64 items.
open class FileCoordinator: NSObject, @unchecked Sendable {
    // @unchecked: all mutable state is in `state`, and the presenter is only compared and asked for its URL.
    private struct State {
        var isCancelled = false
        var purpose: String
        var isPurposeOwn = false
        var waiting: [AccessGroup] = []
        /// The accesses of accessors that are running now. An accessor can announce moves of its items.
        var running: [HeldAccess] = []
    }

    private let presenter: (any FilePresenter)?
    private let state: Mutex<State>

    /// - Parameter filePresenter: The presenter for which the accesses are made. It is neither asked nor notified because of
    ///   these accesses. Coordinators of the same presenter do not wait for each other.
    public init(filePresenter: (any FilePresenter)?) {
        presenter = filePresenter
        state = Mutex(
            State(
                purpose: filePresenter.map { LocalPresenterRegistry.shared.purpose(of: $0) }
                    ?? UUID().uuidString,
                isPurposeOwn: filePresenter != nil))
    }

    public convenience override init() { self.init(filePresenter: nil) }

    /// The name of the purpose of this coordinator. Coordinators of one user with equal names never wait for each other, even
    /// if they are in different programs.
    ///
    /// - Precondition: It is set at most once, it is not empty, and the coordinator is linked to no presenter.
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

    /// Stops waiting for accesses, and prevents this coordinator from beginning further accesses.
    ///
    /// Accesses that wait fail with `CocoaError.userCancelled`. An accessor that is running continues. Any thread may call this
    /// method.
    open func cancel() {
        let waiting = state.withLock { state in
            state.isCancelled = true
            return state.waiting
        }
        for access in waiting { access.cancel() }
    }
}

// Adding and removing presenters.
extension FileCoordinator {
    /// Registers a presenter. From then on, the presenter is asked before other programs use its item, and is notified of their
    /// changes.
    ///
    /// To miss no event, call this inside the accessor of the read that loads the item. If the item is in no coordinated
    /// directory, one line is logged. To receive the error instead of a log line, use ``register(_:)``.
    public static func addFilePresenter(_ filePresenter: any FilePresenter) {
        do throws(FileCoordinationError) {
            try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: true)
        } catch {
            LocalPresenterRegistry.logRegistrationFailure(error, about: filePresenter)
        }
    }

    /// Registers a presenter like ``addFilePresenter(_:)``, but throws if the registration fails.
    public static func register(_ filePresenter: any FilePresenter) throws(FileCoordinationError) {
        try LocalPresenterRegistry.shared.add(filePresenter, staysAfterFailure: false)
    }

    /// Removes a presenter that was added.
    ///
    /// Questions that the presenter has not answered count as answered with consent. Messages that are already on the
    /// presenter's queue are still delivered. If the presenter was not added, this does nothing.
    public static func removeFilePresenter(_ filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.remove(filePresenter)
    }

    /// Reports whether a presenter has changes that are not on the disk.
    ///
    /// Many programs read the size of a file, and then read that many bytes. A presenter with unsaved changes is asked to save
    /// before such a program gets the size. Report new changes before you show them to the user. Report that there are no more
    /// unsaved changes before you complete a save. Apple's systems have no such call. If the presenter was not added, this does
    /// nothing.
    public static func noteUnsavedChanges(_ hasUnsavedChanges: Bool, of filePresenter: any FilePresenter) {
        LocalPresenterRegistry.shared.registration(of: filePresenter)?.noteUnsaved(hasUnsavedChanges)
    }

    /// The presenters that this process has added, in the order of their addition.
    public static var filePresenters: [any FilePresenter] { LocalPresenterRegistry.shared.presenters }

    /// Restarts the time limit of the question that the calling code is answering.
    ///
    /// The answer to a question may take at most 60 s in all. If the calling code is not answering a question, this does
    /// nothing.
    public static func reportProgress() {
        guard let question = AccessContext.current.question, question.isOpen else { return }
        question.connection.tell(.progress(question.id))
    }
}

// Beginning, running and ending accesses.
extension FileCoordinator {
    /// Creates the accesses of one call, and adds them to the accesses that ``cancel()`` stops. The caller then begins them.
    func begin(
        _ items: [AccessItem], isBatch: Bool = false
    ) throws -> AccessGroup {
        let (isCancelled, purpose) = state.withLock { ($0.isCancelled, $0.purpose) }
        guard !isCancelled else { throw CocoaError(.userCancelled) }
        let group = try AccessGroup(
            items.map { AccessItem(current($0.url), $0.access, ifGeneration: $0.ifGeneration) },
            purpose: purpose, isBatch: isBatch,
            within: AccessContext.current)
        let wasCancelled = state.withLock { state in
            state.waiting.append(group)
            return state.isCancelled
        }
        if wasCancelled { group.cancel() }
        return group
    }

    /// Removes accesses that wait no more from the list of accesses that ``cancel()`` stops.
    func removeWaiting(_ group: AccessGroup) {
        state.withLock { state in state.waiting.removeAll { $0 === group } }
    }

    /// Returns the URL that an item has now. The given URL can be out of date: the item was moved, and the presenter is not
    /// notified of the move yet.
    private func current(_ url: URL) -> URL {
        presenter.flatMap { LocalPresenterRegistry.shared.registration(of: $0) }?.current(url) ?? url
    }

    /// Runs an accessor while its granted accesses are held, and then ends the accesses.
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
    /// If the coordinator's presenter had no URL before, the accessor has possibly created the presenter's item. The presenter
    /// is then registered before the accesses end, so before other programs can use the item.
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

    /// Waits until the accesses are granted, and runs the accessor with the URLs that the items then have.
    func perform<Value>(
        _ items: [AccessItem], _ body: ([URL]) throws -> Value
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
        // The accessor uses only copies of the items. So the accesses end before it runs, and other programs need not wait for
        // it.
        granted.end()
        return try body(uploadCopies.urls)
    }
}

// Announcing moves.
extension FileCoordinator {
    /// Announces that an item is about to be moved. Call it within a coordinated write of the item.
    ///
    /// Truce does not need this call. A sandbox on Apple's platforms needs it.
    public func item(at oldURL: URL, willMoveTo newURL: URL) { announce(oldURL, newURL) { .willMove($0) } }

    /// Announces that an item was moved, so that its presenters get the new URL. Call it within a coordinated write of the
    /// item.
    ///
    /// Truce notices a rename in a coordinated directory without this call. It cannot notice other kinds of moves: for example,
    /// a program writes a document under a new name and deletes the former file.
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
            // The item was moved all the same, because this call does not move the item. Only its presenters are not notified.
            NSLog("%@", "the move of \(oldURL.path) is not announced: \(error.message)")
        }
    }
}
