// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The failure, in a sentence for the reader of the test run.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func describe(_ error: Int32) -> String { String(cString: strerror(error)) }

/// Waits for a condition, and throws with its description if it stays false.
///
/// The condition depends on other processes that cannot notify the test, so it is polled every 2 ms. The result never
/// depends on elapsed time alone.
///
/// - Returns: The time until the condition was true.
@discardableResult
package func eventually(
    within bound: Duration, _ what: @autoclosure () -> String, _ condition: () throws -> Bool
) throws -> Duration {
    let clock = ContinuousClock()
    let began = clock.now
    while try !condition() {
        guard began.duration(to: clock.now) < bound else {
            throw TestFailure("waited \(bound) for \(what())")
        }
        usleep(2_000)
        // @sleep: the interval between two polls of the condition, not a time in which it is expected to come true.
    }
    return began.duration(to: clock.now)
}

/// Measures the time of a step.
package func timed<Value>(_ step: () throws -> Value) rethrows -> (result: Value, took: Duration) {
    let clock = ContinuousClock()
    let began = clock.now
    let result = try step()
    return (result, began.duration(to: clock.now))
}

extension Duration {
    package var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
