// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// A queue of orders. A thread or a task can wait until an order is in the queue.
final class OrderQueue: Sendable {
    private struct State {
        var orders: [[String]] = []
        var taker: (@Sendable ([String]) -> Void)?
    }

    private let state = Mutex(State())

    func put(_ order: [String]) {
        let taker = state.withLock { state in
            guard let taker = state.taker else {
                state.orders.append(order)
                return nil as (@Sendable ([String]) -> Void)?
            }
            state.taker = nil
            return taker
        }
        taker?(order)
    }

    private func take(_ taker: @escaping @Sendable ([String]) -> Void) {
        let order: [String]? = state.withLock { state in
            guard state.orders.isEmpty else { return state.orders.removeFirst() }
            state.taker = taker
            return nil
        }
        if let order { taker(order) }
    }

    /// Blocks the thread until an order comes, and returns the order.
    func next() -> [String] {
        let (found, came) = (OrderBox(), DispatchSemaphore(value: 0))
        take { order in
            found.order.withLock { $0 = order }
            came.signal()
        }
        came.wait()
        return found.order.withLock { $0 }
    }

    /// Suspends the task until an order comes, and returns the order.
    func nextInTask() async -> [String] {
        await withCheckedContinuation { continuation in take { continuation.resume(returning: $0) } }
    }

    private final class OrderBox: Sendable { let order = Mutex<[String]>([]) }
}
