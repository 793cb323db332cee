// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// A program that shows a file or directory; it is asked before other programs use it, and notified of their changes.
///
/// The names and their meaning are those of Apple's `NSFilePresenter`, which is an alias here. All members except the
/// first two properties are optional. The first call of a default implementation reports that the message is not
/// implemented. From then on the message counts as consent, and the presenter is not called. Optional methods are
/// looked up in the class that declares the conformance. A subclass receives a message only if that class implements
/// it. Unlike on Apple's systems, the compiler does not warn about this.
///
/// **Threads.** `presentedItemURL` is read on any thread, at any time. All other members are called on
/// `presentedItemOperationQueue`.
///
/// **Limits.** A presenter has to answer within 5 s, or 10 s for a save. ``FileCoordinator/reportProgress()`` extends
/// these limits. After the limit, the waiting program continues without the answer, and errors of other programs name
/// the presenter.
///
/// **Blocked queues.** While a coordinated access that was begun on a serial queue waits, nothing else can run on that
/// queue. The library answers the questions to its presenters for them where that is safe. So two presenters that read
/// in ``presentedItemDidChange()`` do not wait for each other.
@preconcurrency
public protocol FilePresenter: NSObjectProtocol {
    /// Nil for an item that does not exist yet. It is read again when an access by a coordinator linked to the
    /// presenter ends.
    var presentedItemURL: URL? { get }
    /// The queue of the messages; serial unless the presenter supports several messages at once.
    var presentedItemOperationQueue: OperationQueue { get }
    /// For compatibility; it is never read.
    var primaryPresentedItemURL: URL? { get }

    /// A process of the same user that saves for this one, such as an editor's server; nil for none.
    ///
    /// Its changes of the item count as the presenter's own. It is read when the presenter is registered. The
    /// registration fails if that process has ended or belongs to another user.
    var presentedItemServerProcess: Int32? { get }

    /// Another program wants to read. Call `reader` when it may read. Pass a block that is called after the read, or
    /// nil.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Another program wants to write, move or delete. Call `writer` when it may. Pass a block that is called
    /// afterwards, or nil.
    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Another program wants to read the item. The file must be up to date when the handler is called.
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func savePresentedItemChanges() async throws
    /// Another program wants to delete or replace the item.
    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedItemDeletion() async throws

    /// The item, or a directory above it, has another name.
    func presentedItemDidMove(to newURL: URL)
    /// Contents or attributes of a file or package were written.
    ///
    /// Compare modification dates, since the notice may come without a change. One such case is a restart of the
    /// daemon.
    func presentedItemDidChange()

    /// Another program wants to delete an item in the directory.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedSubitemDeletion(at url: URL) async throws
    /// A new item is in the directory, at any depth.
    func presentedSubitemDidAppear(at url: URL)
    /// An item in the directory has another name, which may be outside the directory.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
    /// An item in the directory was written, or is gone.
    ///
    /// The directory's own URL means that events were left out: read the whole directory again.
    func presentedSubitemDidChange(at url: URL)
}

/// Default implementations. The form of a request with a handler calls the `async` form.
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

/// The error of an `async` request that is not implemented.
struct NotImplemented: Error {
    let message: PresenterMessages
    let presenter: ObjectIdentifier

    init(_ message: PresenterMessages, by presenter: any FilePresenter) {
        self.message = message
        self.presenter = ObjectIdentifier(presenter)
    }
}

/// Sends a presenter to its own queue, where its documentation says that it is used.
struct UncheckedSendableBox<Value>: @unchecked Sendable {
    // @unchecked: the caller that made the value promised that it may be used where it is sent.
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// The delivery of one message, so that default implementations can report that the message is not implemented.
///
/// A presenter may forward a message to another presenter, or call another of its own methods. Default implementations
/// called there do not mean that the delivered message is not implemented.
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

    /// Runs the `async` form of a request. If that is not implemented either, the request is answered at once.
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
