// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A serial queue that is blocked until `free`, so that an accessor has to wait there.
final class OccupiedQueue: Sendable {
    let queue = OperationQueue()
    private let freed = DispatchSemaphore(value: 0)

    init() {
        queue.maxConcurrentOperationCount = 1
        queue.addOperation { [freed] in freed.wait() }
    }

    /// Number of operations behind the blocking one.
    var waiting: Int { queue.operationCount - 1 }

    func free() { freed.signal() }

    /// Cancels the waiting operations.
    func drop() {
        queue.cancelAllOperations()
        free()
    }
}
