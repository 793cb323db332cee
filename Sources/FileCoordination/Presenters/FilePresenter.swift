// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// Somebody who shows a file or a directory: asked before others use it, and told what they did.
///
/// The names and their meaning are those of Apple's `NSFilePresenter`, which is an alias here. Everything but the two
/// properties is optional: a default implementation says, when it is called first, that the message is not
/// implemented; from then on it counts as consent and costs no time of the presenter's. What is optional is looked for in the class
/// that declares the conformance: a subclass is asked only what that class implements and it overrides, and unlike on Apple's
/// systems the compiler does not say so.
///
/// **Threads.** `presentedItemURL` is asked on any thread, at any time; everything else is called on
/// `presentedItemOperationQueue`. A presenter has to answer in time (5 s, to save 10 s; ``FileCoordinator/reportProgress()``
/// extends that): whoever waits goes on without it then, and errors that others get name it. While a coordinated access
/// that was begun on a serial queue waits, nothing else can run there; what its presenters are asked meanwhile is answered
/// for them where that is right, so that two who read in ``presentedItemDidChange()`` do not wait for each other.
@preconcurrency
public protocol FilePresenter: NSObjectProtocol {
    /// Nil for what does not exist yet. It is asked again when an access by a coordinator that is linked to the presenter
    /// ends.
    var presentedItemURL: URL? { get }
    /// Where messages are delivered. Serial unless the presenter is ready for several at once.
    var presentedItemOperationQueue: OperationQueue { get }
    /// For compatibility; nothing asks for it.
    var primaryPresentedItemURL: URL? { get }

    /// A process of the same user that saves for this one, as an editor's server does: what it does to the item is the
    /// presenter's own. Asked for when the presenter is registered; nil for none. The presenter is not registered if that
    /// process has ended or is another user's.
    var presentedItemServerProcess: Int32? { get }

    /// Somebody wants to read. Call `reader` when they may, with a block that is called when they have ended, or nil.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Somebody wants to write, move or delete. Call `writer` when they may, with a block that is called when they have
    /// ended, or nil.
    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Somebody wants to read what is here: what is on the disk has to be up to date when the handler is called.
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func savePresentedItemChanges() async throws
    /// Somebody wants to delete the item, or put another in its place.
    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedItemDeletion() async throws

    /// The item, or a directory above it, has another name.
    func presentedItemDidMove(to newURL: URL)
    /// Contents or attributes of a file or package were written. Compare modification dates: it may be told once more
    /// than needed, as when the daemon was started again and nobody knows what happened meanwhile.
    func presentedItemDidChange()

    /// Somebody wants to delete something in the directory.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedSubitemDeletion(at url: URL) async throws
    /// Something new is in the directory, at any depth.
    func presentedSubitemDidAppear(at url: URL)
    /// Something in the directory has another name, which may be outside.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
    /// Something in the directory was written, or is gone. With the directory's own URL: more happened than could be
    /// told, so look through it.
    func presentedSubitemDidChange(at url: URL)
}

/// What is not implemented. Of the two forms of a request, the one with a handler runs the other.
extension FilePresenter {
    public var primaryPresentedItemURL: URL? { nil }
    public var presentedItemServerProcess: Int32? { nil }

    public func relinquishPresentedItem(
        toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        Delivery.isNotImplemented(.relinquishToReader, by: self)
        reader(nil)
    }

    public func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        Delivery.isNotImplemented(.relinquishToWriter, by: self)
        writer(nil)
    }

    public func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        let presenter = UncheckedSendableBox<any FilePresenter>(self)
        Delivery.run(completionHandler) { try await presenter.value.savePresentedItemChanges() }
    }

    public func savePresentedItemChanges() async throws { throw NotImplemented(.save, by: self) }

    public func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        let presenter = UncheckedSendableBox<any FilePresenter>(self)
        Delivery.run(completionHandler) { try await presenter.value.accommodatePresentedItemDeletion() }
    }

    public func accommodatePresentedItemDeletion() async throws {
        throw NotImplemented(.accommodateDeletion, by: self)
    }

    public func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        let presenter = UncheckedSendableBox<any FilePresenter>(self)
        Delivery.run(completionHandler) {
            try await presenter.value.accommodatePresentedSubitemDeletion(at: url)
        }
    }

    public func accommodatePresentedSubitemDeletion(at url: URL) async throws {
        throw NotImplemented(.accommodateSubitemDeletion, by: self)
    }

    public func presentedItemDidMove(to newURL: URL) { Delivery.isNotImplemented(.didMove, by: self) }
    public func presentedItemDidChange() { Delivery.isNotImplemented(.didChange, by: self) }
    public func presentedSubitemDidAppear(at url: URL) {
        Delivery.isNotImplemented(.subitemDidAppear, by: self)
    }
    public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
        Delivery.isNotImplemented(.subitemDidMove, by: self)
    }
    public func presentedSubitemDidChange(at url: URL) {
        Delivery.isNotImplemented(.subitemDidChange, by: self)
    }
}

/// What an `async` form throws that nobody implements.
struct NotImplemented: Error {
    let message: PresenterMessages
    let presenter: ObjectIdentifier

    init(_ message: PresenterMessages, by presenter: any FilePresenter) {
        self.message = message
        self.presenter = ObjectIdentifier(presenter)
    }
}

/// A presenter on its way to its own queue, which is where its documentation says it is used.
struct UncheckedSendableBox<Value>: @unchecked Sendable {
    // @unchecked: whoever made the value promised that it may be used where it is sent.
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// The delivery of one message, for default implementations to say that they are none.
///
/// A presenter may pass on to others what it is told, or call another of its methods: what those leave to the defaults
/// says nothing of the message that is delivered.
final class Delivery: Sendable {
    @TaskLocal static var current: Delivery?

    private let message: PresenterMessages
    private let presenter: ObjectIdentifier
    private let whenNotImplemented: @Sendable () -> Void

    init(
        of message: PresenterMessages, to presenter: any FilePresenter,
        whenNotImplemented: @escaping @Sendable () -> Void
    ) {
        self.message = message
        self.presenter = ObjectIdentifier(presenter)
        self.whenNotImplemented = whenNotImplemented
    }

    static func isNotImplemented(_ message: PresenterMessages, by presenter: any FilePresenter) {
        current?.take(NotImplemented(message, by: presenter))
    }

    private func take(_ missing: NotImplemented) {
        if missing.presenter == presenter, missing.message == message { whenNotImplemented() }
    }

    /// Runs the `async` form of a request, which may not be implemented either: then there is nothing to wait for.
    static func run(
        _ completionHandler: @escaping @Sendable ((any Error)?) -> Void,
        _ body: @escaping @Sendable () async throws -> Void
    ) {
        let delivery = current
        Task {
            do {
                try await body()
                completionHandler(nil)
            } catch let missing as NotImplemented {
                delivery?.take(missing)
                completionHandler(nil)
            } catch {
                completionHandler(error)
            }
        }
    }
}
