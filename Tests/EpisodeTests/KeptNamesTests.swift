// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import FuseBridge
import Testing

@Suite("Names that the kernel keeps")
struct KeptNamesTests {
    private let directory = NodeID(7)

    @Test("They are good while the directory looks as it did when it was opened to read them")
    func unchanged() {
        var names = KeptNames<Int>()
        #expect(names.open(directory, looking: 1) == .fresh)
        names.begin(directory)
        #expect(names.open(directory, looking: 1) == .kept)
        names.close(directory)
        names.close(directory)
        #expect(names.open(directory, looking: 1) == .kept)
        #expect(names.open(directory, looking: 1) == .kept)
        names.close(directory)
        names.close(directory)
        #expect(names.open(directory, looking: 2) == .fresh)
        #expect(names.open(NodeID(8), looking: 2) == .fresh)
    }

    @Test("While somebody reads what has changed since, nothing is kept, and afterwards all begins anew")
    func readersOfTheOld() {
        var names = KeptNames<Int>()
        #expect(names.open(directory, looking: 1) == .fresh)
        #expect(names.open(directory, looking: 2) == .passing)
        // The first reader may still put the old names into the kernel's memory.
        #expect(names.open(directory, looking: 2) == .passing)
        #expect(names.open(directory, looking: 1) == .passing)
        names.close(directory)
        #expect(names.open(directory, looking: 2) == .fresh)
        names.begin(directory)
        #expect(names.open(directory, looking: 2) == .kept)
    }

    @Test("Until it is read, the kernel may have what was there before")
    func notRead() {
        var names = KeptNames<Int>()
        #expect(names.open(directory, looking: 1) == .fresh)
        #expect(names.open(directory, looking: 1) == .passing)
        names.close(directory)
        #expect(names.open(directory, looking: 1) == .kept)
    }

    @Test("What was told for a moment is not kept for the next")
    func doubted() {
        var names = KeptNames<Int>()
        #expect(names.open(directory, looking: 1) == .fresh)
        names.doubt(directory)
        names.close(directory)
        #expect(names.open(directory, looking: 1) == .fresh)
        names.doubt(NodeID(8))
        names.close(NodeID(8))
    }

    @Test("Of many directories only those being read are remembered")
    func many() {
        var names = KeptNames<Int>(capacity: 4)
        #expect(names.open(directory, looking: 1) == .fresh)
        names.begin(directory)
        for other in UInt64(100)..<104 {
            #expect(names.open(NodeID(other), looking: 1) == .fresh)
            names.close(NodeID(other))
        }
        #expect(names.open(NodeID(100), looking: 1) == .fresh)
        #expect(names.open(directory, looking: 1) == .kept)
        #expect(names.open(directory, looking: 2) == .passing)
    }
}
