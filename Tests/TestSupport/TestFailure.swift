// SPDX-License-Identifier: Apache-2.0
import Glibc

/// An error of a test, with a sentence for the reader of the test's output.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func describe(_ error: Int32) -> String { String(cString: strerror(error)) }

/// Waits until a condition is true. If it stays false for the given time, throws an error with the description.
///
/// The condition depends on other processes, which cannot notify the test. So it is checked every 2 ms. It must be true in the
/// end; when it becomes true does not matter.
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
        // @sleep: the pause between two checks of the condition. The test does not expect that the condition is true after one
        // pause.
    }
    return began.duration(to: clock.now)
}

/// Runs a step, and returns its result and the time that it took.
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
