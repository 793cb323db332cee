// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Testing

@Suite("When a thread polls for requests instead of sleeping")
struct RequestPaceTests {
    /// Returns the numbers of the requests after which the thread should poll. The first request has number 1. `pauses`
    /// contains the nanoseconds before each request.
    private func told(_ pauses: [UInt64]) -> [Int] {
        var pace = RequestPace()
        var told: [Int] = []
        for (index, pause) in pauses.enumerated() where pace.shouldPoll(after: pause) {
            told.append(index + 1)
        }
        return told
    }

    @Test("A thread starts to poll whenever eight quick requests have arrived in a row")
    func eightQuickRequestsStartPolling() {
        #expect(told(Array(repeating: 100_000, count: 20)) == [8, 16])
    }

    @Test("A request that arrives late restarts a thread's count of quick requests")
    func aRequestThatArrivesLateRestartsTheCountOfQuickRequests() {
        let row: [UInt64] = Array(repeating: 30_000, count: 7) + [100_001]
        #expect(told(row + row + row) == [])
        #expect(told(row + Array(repeating: 30_000, count: 8)) == [16])
    }

    @Test(
        "While two client threads send requests in turn, and for some requests afterwards, the thread does not poll"
    )
    func alternatingClientThreadsPreventPolling() {
        var pace = RequestPace()
        let notes = (0..<40).map { pace.note(UInt32(1 + $0 % 2)) }
        #expect(notes == Array(repeating: true, count: 4) + Array(repeating: false, count: 36))
        let told = (1...8).map { _ in pace.shouldPoll(after: 30_000) }
        #expect(told == Array(repeating: false, count: 8))
        let later = (1...49).map { _ in pace.note(7) }
        #expect(later == Array(repeating: false, count: 48) + [true])
    }

    @Test("Programs that run one after the other count as one client; requests without a thread do not count")
    func successiveProgramsCountAsOneClient() {
        var pace = RequestPace()
        for program in UInt32(1)...100 {
            for _ in 1...8 {
                let isOne = (pace.note(program), pace.note(0))
                #expect(isOne == (true, true))
            }
        }
    }

    @Test("A request that was already waiting counts neither for nor against polling")
    func aRequestThatWasAlreadyWaitingCountsNeitherForNorAgainstPolling() {
        #expect(told(Array(repeating: 2_000, count: 100)) == [])
        #expect(told((1...8).flatMap { _ in [30_000, 2_000] }) == [15])
    }
}
