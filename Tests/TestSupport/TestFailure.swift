// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What went wrong, in a sentence for the reader of the test run.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func describe(_ error: Int32) -> String { String(cString: strerror(error)) }

/// Waits until a condition holds, and says what it waited for if it never did.
///
/// What is waited for happens in other processes and has no other way to tell us; so the condition is looked at
/// every 2 ms. Nothing follows from time that passed, only from the condition.
///
/// - Returns: how long it took.
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
        // @sleep: the interval between two looks at the condition, not a time in which it is expected to come true.
    }
    return began.duration(to: clock.now)
}

/// How long a step took.
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
