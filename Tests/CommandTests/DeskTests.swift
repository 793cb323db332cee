// SPDX-License-Identifier: Apache-2.0
import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ControlServer

/// In which order what clients ask for is done.
@Suite("The desk")
struct DeskTests {
    @Test("users take turns, and each has its jobs done in their order")
    func turns() throws {
        let desk = Desk()
        let done = Mutex<[String]>([])
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        desk.submit(of: 1) {
            begun.signal()
            goOn.wait()
        }
        begun.wait()
        for name in ["a", "b", "c"] { desk.submit(of: 1) { done.withLock { $0.append("1" + name) } } }
        for name in ["a", "b"] { desk.submit(of: 2) { done.withLock { $0.append("2" + name) } } }
        desk.submit(of: nil) { done.withLock { $0.append("own") } }
        goOn.signal()
        try desk.finish(on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(done.withLock { $0 } == ["1a", "2a", "own", "1b", "2b", "1c"])
        try desk.end()
    }

    @Test("at its end what must be done is done, and what may fail fails")
    func end() throws {
        let desk = Desk()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        #expect(try desk.run(of: 1, on: loop) { 7 }.wait() == 7)
        try desk.end()
        let ran = DispatchSemaphore(value: 0)
        desk.submit(of: 1) { ran.signal() }
        #expect(ran.wait(timeout: .now() + 10) == .success)
        #expect(throws: CancellationError.self) { try desk.run(of: 1, on: loop) { 7 }.wait() }
    }
}
