// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A serial queue that is blocked until ``free()`` is called, so that an accessor must wait in the queue.
final class OccupiedQueue: Sendable {
    let queue = OperationQueue()
    private let freed = DispatchSemaphore(value: 0)

    init() {
        queue.maxConcurrentOperationCount = 1
        queue.addOperation { [freed] in freed.wait() }
    }

    /// The number of operations that wait in the queue behind the operation that blocks it.
    var waiting: Int { queue.operationCount - 1 }

    func free() { freed.signal() }

    /// Cancels the operations that wait in the queue.
    func drop() {
        queue.cancelAllOperations()
        free()
    }
}
