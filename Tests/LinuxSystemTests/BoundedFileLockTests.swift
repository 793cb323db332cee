// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import LinuxSystem
import Testing

@Suite("Waiting for a file lock with a time limit")
struct LockWaitingTests {
    private static let margin = Duration.seconds(10)

    /// Two open file descriptions of one file without a name. If one description has locked the file, the other cannot lock it.
    private final class Pair: Sendable {
        private let first: OwnedDescriptor
        private let second: OwnedDescriptor

        init() throws {
            var template = Array("\(NSTemporaryDirectory())truce-lock-XXXXXX".utf8CString)
            let numbers = [mkstemp(&template), open(template, O_RDWR | O_CLOEXEC)]
            unlink(template)
            precondition(numbers.allSatisfy { $0 >= 0 }, "a temporary file can be made")
            first = OwnedDescriptor(adopting: numbers[0])
            second = OwnedDescriptor(adopting: numbers[1])
        }

        func lockFirst() throws -> Bool { try first.tryLock() }
        func unlockFirst() { first.unlock() }

        func lockSecond(within time: Duration, unless isHopeless: () -> Bool = { false }) throws -> Bool {
            try BoundedFileLock.acquire(second, within: time, unless: isHopeless)
        }
    }

    @Test("a free lock is taken, and no other open file can take the lock meanwhile")
    func aFreeLockIsTaken() throws {
        let pair = try Pair()
        #expect(try pair.lockSecond(within: .seconds(60)))
        #expect(try !pair.lockFirst())
    }

    @Test("a lock that another open file holds is not taken, and the wait ends at the time limit")
    func aWaitForAHeldLockEndsAtTheTimeLimit() throws {
        let pair = try Pair()
        #expect(try pair.lockFirst())
        let clock = ContinuousClock()
        let began = clock.now
        #expect(try !pair.lockSecond(within: .milliseconds(100)))
        let took = began.duration(to: clock.now)
        #expect(took >= .milliseconds(100) && took < Self.margin)
    }

    @Test("a wait for a lock ends at once when the caller's closure says that the wait is hopeless")
    func aWaitThatTheCallerStopsEndsAtOnce() throws {
        let pair = try Pair()
        #expect(try pair.lockFirst())
        let clock = ContinuousClock()
        let began = clock.now
        #expect(try !pair.lockSecond(within: .seconds(60)) { true })
        #expect(began.duration(to: clock.now) < Self.margin)
    }

    @Test("a file lock that is released during the wait for it is taken")
    func aFileLockThatIsReleasedDuringTheWaitForItIsTaken() throws {
        let pair = try Pair()
        #expect(try pair.lockFirst())
        // The closure is called when the wait for the lock has begun.
        let isTaken = try pair.lockSecond(within: .seconds(60)) {
            pair.unlockFirst()
            return false
        }
        #expect(isTaken)
    }
}
