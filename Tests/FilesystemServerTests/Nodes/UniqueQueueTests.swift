// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite struct UniqueQueueTests {
    @Test("The first element in is the first out")
    func queueIsFIFO() {
        var queue = UniqueQueue<Int>()
        for number in 0..<100 { queue.push(number) }
        #expect((0..<100).allSatisfy { queue.pop() == $0 })
        #expect(queue.pop() == nil)
    }

    @Test("A file that is forgotten and found again for ever is in the queue once")
    func duplicateIsIgnored() {
        var queue = UniqueQueue<Int>()
        for number in 0..<100_000 { queue.push(number % 7) }
        #expect(queue.count == 7)
        #expect(queue.pop() == 0)
        #expect(queue.count == 6)
    }

    @Test("An element that was taken out is added again at the end")
    func poppedElementReturns() {
        var queue = UniqueQueue<Int>()
        for number in 0..<3 { queue.push(number) }
        #expect(queue.pop() == 0)
        queue.push(0)
        queue.push(1)
        #expect([queue.pop(), queue.pop(), queue.pop(), queue.pop()] == [1, 2, 0, nil])
    }
}
