// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization
import Testing

@testable import FilesystemServer

/// Requests for a file wait for its merge, and no merge begins while a request is under way (D246).
@Suite struct PendingMergesTests {
    private let merges = PendingMerges()
    private let file = NodeID(7)

    @Test("a request passes at once if no merge is expected, and until its end no merge begins")
    func aRequestKeepsAMergeFromBeginning() throws {
        let passage = try #require(merges.pass(file))
        merges.expect(file)
        #expect(merges.pass(file) == nil)
        #expect(!merges.begin(file))
        merges.cancel(file)
        #expect(!merges.isPending(file))
        merges.expect(file)
        passage.end()
        passage.end()
        #expect(merges.begin(file) && merges.beginWriting(file))
        merges.end(file)
        #expect(!merges.isPending(file) && merges.pass(file) != nil)
    }

    @Test("a request whose object is freed has ended")
    func aFreedRequestHasEnded() {
        do { withExtendedLifetime(merges.pass(file)) {} }
        merges.expect(file)
        #expect(merges.begin(file))
    }

    @Test("a waiting request goes on at the end of the merge, and keeps the next merge from beginning")
    func aWaitingRequestGoesOnAtTheEnd() throws {
        let timers = try Timers()
        let passages = Mutex<[MergePassage]>([])
        merges.expect(file)
        merges.wait(for: file, by: timers) { passage in passages.withLock { $0.append(passage) } }
        #expect(merges.begin(file) && passages.withLock { $0.isEmpty })
        merges.end(file)
        #expect(passages.withLock { $0.count } == 1)
        merges.expect(file)
        #expect(!merges.begin(file))
        passages.withLock { $0 = [] }
        #expect(merges.begin(file))
    }

    @Test("after 200 ms a waiting request goes on, and the merge is given up")
    func aRequestGivesAMergeUp() async throws {
        let timers = try Timers()
        merges.expect(file)
        #expect(merges.begin(file))
        await withCheckedContinuation { continuation in
            merges.wait(for: file, by: timers) { _ in continuation.resume() }
        }
        #expect(!merges.beginWriting(file) && !merges.isPending(file))
        merges.end(file)
        #expect(merges.pass(file) != nil)
    }

    @Test("a step on names gives a merge up at once, but waits while the file is being written")
    func aStepOnNamesGivesAMergeUp() {
        let count = Mutex(0)
        merges.expect(file)
        #expect(merges.begin(file))
        merges.passSoon(file) { _ in count.withLock { $0 += 1 } }
        #expect(count.withLock { $0 } == 1 && !merges.beginWriting(file))
        merges.end(file)
        merges.expect(file)
        #expect(merges.begin(file) && merges.beginWriting(file))
        merges.passSoon(file) { _ in count.withLock { $0 += 1 } }
        #expect(count.withLock { $0 } == 1)
        merges.end(file)
        #expect(count.withLock { $0 } == 2)
    }

    @Test("a merge of one program's save ends, and the save of another program is still expected")
    func anotherMergeIsStillExpected() {
        merges.expect(file)
        #expect(merges.begin(file))
        merges.end(file, isExpected: true)
        #expect(merges.isPending(file) && merges.pass(file) == nil)
        #expect(merges.begin(file))
        merges.cancel(file)
        #expect(merges.isPending(file) && merges.beginWriting(file))
        merges.end(file, isExpected: true)
        merges.giveUp(file)
        #expect(merges.pass(file) != nil)
    }
}
