// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// An object that shows a file or directory to the user. It is asked before other programs use the item, and notified of their
/// changes.
///
/// The names and their meaning are those of Apple's `NSFilePresenter`, and the protocol has that name as an alias. All members
/// except the first two properties are optional. If the presenter does not implement a message, the library notices this at the
/// first delivery. From then on, the library answers that message with consent and does not call the presenter. Optional
/// methods are looked up in the class that declares the conformance. A subclass receives a message only if that class
/// implements the method. Unlike on Apple's systems, the compiler does not warn about this.
///
/// **Threads.** `presentedItemURL` is read on any thread, at any time. All other members are called on
/// `presentedItemOperationQueue`.
///
/// **Limits.** A presenter has to answer within 5 s, or 10 s for a save. ``FileCoordinator/reportProgress()`` extends these
/// limits. After the limit, the waiting program continues without the answer, and the errors of other programs contain the name
/// of the presenter's program.
///
/// **Blocked queues.** If a coordinated access was begun on a serial queue, nothing else can run on that queue while the access
/// waits. The presenters of that queue cannot answer questions during this time. The library answers for them where that is
/// safe. For example, two presenters that read in ``presentedItemDidChange()`` do not wait for each other.
@preconcurrency
public protocol FilePresenter: NSObjectProtocol {
    /// The URL of the item; nil for an item that does not exist yet. When an access of a coordinator that is linked to this
    /// presenter ends, the library reads the URL again.
    var presentedItemURL: URL? { get }
    /// The queue on which the library calls the presenter. Use a serial queue, unless the presenter can handle several messages
    /// at the same time.
    var presentedItemOperationQueue: OperationQueue { get }
    /// A property for compatibility with Apple's protocol. The library never reads it.
    var primaryPresentedItemURL: URL? { get }

    /// The process id of another process of the same user that writes the item for this presenter, such as an editor's server.
    /// Nil if there is no such process.
    ///
    /// Changes of the item by that process are treated as changes by the presenter. The property is read when the presenter is
    /// registered. If that process has ended or belongs to another user, the registration fails.
    var presentedItemServerProcess: Int32? { get }

    /// Another program wants to read the item. Call `reader` when you have stopped using the item. Pass `reader` a block that
    /// is called after the read, or nil.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Another program wants to write, move or delete the item. Call `writer` when you have stopped using the item. Pass
    /// `writer` a block that is called when the other program has finished, or nil.
    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Another program wants to read the item. Write all unsaved changes to the file before you call the handler.
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func savePresentedItemChanges() async throws
    /// Another program wants to delete or replace the item. Call the handler when you have closed the item.
    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedItemDeletion() async throws

    /// The item was renamed or moved, or a directory that contains it was renamed or moved.
    func presentedItemDidMove(to newURL: URL)
    /// The contents or attributes of the presented file or package were written.
    ///
    /// Compare modification dates: this method can be called although nothing has changed, for example after a restart of the
    /// daemon.
    func presentedItemDidChange()

    /// The item has a new version in the store. The presenter is also told if its own program has caused the version.
    ///
    /// If the version is an unresolved conflict, its contents were lost from the file, or will be. Show it to the user.
    func presentedItemDidGain(_ version: FileVersion)
    /// A version of the item was removed from the store. The version has only its identifier.
    func presentedItemDidLose(_ version: FileVersion)
    /// A conflict version of the item was marked as resolved.
    func presentedItemDidResolveConflict(_ version: FileVersion)

    /// Another program wants to delete an item in the presented directory. Call the handler when you have closed that item.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    func accommodatePresentedSubitemDeletion(at url: URL) async throws
    /// A new item is in the presented directory or in a directory below it.
    func presentedSubitemDidAppear(at url: URL)
    /// An item in the presented directory was renamed or moved. Its new URL may be outside the directory.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
    /// An item in the presented directory was written, or was removed.
    ///
    /// If the URL is that of the directory itself, some events are missing. In this case, read the whole directory again.
    func presentedSubitemDidChange(at url: URL)
    /// An item in the presented directory has a new version in the store.
    func presentedSubitem(at url: URL, didGain version: FileVersion)
    /// A version of an item in the presented directory was removed from the store.
    func presentedSubitem(at url: URL, didLose version: FileVersion)
    /// A conflict version of an item in the presented directory was marked as resolved.
    func presentedSubitem(at url: URL, didResolve version: FileVersion)
}

/// Default implementations of the optional members. A method with a handler calls the `async` method of the same name.
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
    public func presentedItemDidGain(_ version: FileVersion) { Delivery.isNotImplemented(.didGain, by: self) }
    public func presentedItemDidLose(_ version: FileVersion) { Delivery.isNotImplemented(.didLose, by: self) }
    public func presentedItemDidResolveConflict(_ version: FileVersion) {
        Delivery.isNotImplemented(.didResolve, by: self)
    }
    public func presentedSubitem(at url: URL, didGain version: FileVersion) {
        Delivery.isNotImplemented(.subitemDidGain, by: self)
    }
    public func presentedSubitem(at url: URL, didLose version: FileVersion) {
        Delivery.isNotImplemented(.subitemDidLose, by: self)
    }
    public func presentedSubitem(at url: URL, didResolve version: FileVersion) {
        Delivery.isNotImplemented(.subitemDidResolve, by: self)
    }
}

/// The error that means: the presenter does not implement this optional `async` method.
struct NotImplemented: Error {
    let message: PresenterMessages
    let presenter: ObjectIdentifier

    init(_ message: PresenterMessages, by presenter: any FilePresenter) {
        self.message = message
        self.presenter = ObjectIdentifier(presenter)
    }
}

/// Passes a presenter to another thread. The documentation of ``FilePresenter`` says on which queue each member is called.
struct UncheckedSendableBox<Value>: @unchecked Sendable {
    // @unchecked: the caller that made the value promised that the value can be used on the thread to which it is passed.
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// The delivery of one message to a presenter. If a default implementation is called during the delivery, the presenter does
/// not implement the message.
///
/// A presenter can forward a message to another presenter, or call other methods of its own. If the default implementation is
/// that of another presenter or message, the delivered message still counts as implemented.
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

    /// Runs the `async` method of a request, and calls the handler with the result. If the presenter does not implement the
    /// `async` method, the handler is called without an error.
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
