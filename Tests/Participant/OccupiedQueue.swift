// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A serial queue that has something else to do before an accessor can run there.
final class OccupiedQueue: Sendable {
    let queue = OperationQueue()
    private let freed = DispatchSemaphore(value: 0)

    init() {
        queue.maxConcurrentOperationCount = 1
        queue.addOperation { [freed] in freed.wait() }
    }

    /// How much waits behind that.
    var waiting: Int { queue.operationCount - 1 }

    func free() { freed.signal() }

    /// What waits is never done.
    func drop() {
        queue.cancelAllOperations()
        free()
    }
}
