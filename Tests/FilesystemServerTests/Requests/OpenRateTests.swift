// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

@Suite("Programs that open many documents") struct OpenRateTests {
    private func moment(_ milliseconds: UInt64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test(
        "The 201st document that a program opens within ten seconds exceeds the limit, and the count restarts"
    )
    func the201stDocumentInTenSecondsExceedsTheLimit() {
        var pace = OpenRate()
        let found = (0..<402).filter { pace.note(7, at: moment(5_000 + UInt64($0))) }
        #expect(found == [200, 401])
    }

    @Test(
        "The limit of opened documents covers any ten seconds, wherever they begin",
        arguments: [(50, true), (51, false)])
    func theLimitOfOpenedDocumentsCoversAnyTenSeconds(interval: UInt64, isQuick: Bool) {
        var pace = OpenRate()
        // Between the first and the 201st open, 200 intervals pass.
        let found = (0..<1_000).contains { pace.note(7, at: moment(3_000 + $0 * interval)) }
        #expect(found == isQuick)
    }

    @Test("The documents of each program are counted separately, for up to 64 programs")
    func eachProgramsDocumentsAreCountedSeparately() {
        var pace = OpenRate()
        let few = (0..<400).contains { pace.note(Int32($0 % 2), at: moment(UInt64($0))) }
        #expect(!few)
        var rate = OpenRate()
        let processes = OpenRate.processes
        let found = (0..<processes * 300).contains { number in
            rate.note(Int32(1 + number % processes), at: moment(UInt64(number / 100)))
        }
        #expect(found)
    }
}
