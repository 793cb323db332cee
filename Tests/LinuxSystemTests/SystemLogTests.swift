// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization
import Testing

@Suite("The log of the daemon")
struct SystemLogTests {
    /// A reader of the log that reads no line before the test releases it.
    private final class Reader: Sendable {
        private let lines = Mutex<[String]>([])
        private let gate = Mutex(())

        func take(_ line: String) { gate.withLock { _ in lines.withLock { $0.append(line) } } }
        func keeping(_ body: () -> Void) { gate.withLock { _ in body() } }
        var taken: [String] { lines.withLock { $0 } }
    }

    @Test("a line end or control character in a logged name is escaped")
    func controlCharactersInLogLinesAreEscaped() {
        let reader = Reader()
        SystemLog { reader.take($0) }.write("waits for x\ntruce: \u{1B}[31mgone")
        #expect(reader.taken == ["waits for x\\x0atruce: \\x1b[31mgone"])
    }

    @Test("writers of the log never wait for its reader, and the log reports the number of lost lines")
    func writersOfTheLogNeverWaitForItsReader() throws {
        let reader = Reader()
        let log = SystemLog { reader.take($0) }
        log.write("at once")
        #expect(reader.taken == ["at once"])
        try log.startThread()
        reader.keeping {
            for number in 0..<SystemLog.capacity + 10 { log.write("\(number)") }
            log.finish(within: .zero)
        }
        log.finish(within: .seconds(10))
        let expected = [
            "at once", "0", "10 lines of this log were lost: the system log did not take them in time",
        ]
        #expect(reader.taken.count == SystemLog.capacity + 2)
        #expect(Array(reader.taken.prefix(3)) == expected)
        #expect(reader.taken.last == "\(SystemLog.capacity - 1)")
    }
}
