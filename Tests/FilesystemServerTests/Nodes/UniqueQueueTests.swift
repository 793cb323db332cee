// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite("A queue in which each element occurs once") struct UniqueQueueTests {
    @Test("Elements are taken in the order in which they were added")
    func elementsAreTakenInTheOrderOfArrival() {
        var queue = UniqueQueue<Int>()
        for number in 0..<100 { queue.push(number) }
        #expect((0..<100).allSatisfy { queue.pop() == $0 })
        #expect(queue.pop() == nil)
    }

    @Test("An element that is already in the queue is not added again")
    func aQueuedElementIsNotAddedTwice() {
        var queue = UniqueQueue<Int>()
        for number in 0..<100_000 { queue.push(number % 7) }
        #expect(queue.count == 7)
        #expect(queue.pop() == 0)
        #expect(queue.count == 6)
    }

    @Test("An element that was taken from the queue can be added anew, at the end of the queue")
    func aTakenElementIsAddedAtTheEnd() {
        var queue = UniqueQueue<Int>()
        for number in 0..<3 { queue.push(number) }
        #expect(queue.pop() == 0)
        queue.push(0)
        queue.push(1)
        #expect([queue.pop(), queue.pop(), queue.pop(), queue.pop()] == [1, 2, 0, nil])
    }
}
