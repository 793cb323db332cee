// SPDX-License-Identifier: Apache-2.0
import Foundation
import History
import LinuxSystem
import Synchronization
import Testing
import VersionStore

private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// The directory of one test. The directory is removed after the test.
private final class LogDirectory: Sendable {
    let path: String

    init() throws {
        var template = Array("\(NSTemporaryDirectory())truce-history-XXXXXX".utf8CString)
        let made = try #require(mkdtemp(&template))
        path = String(cString: made)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { print("left \(path): \(error)") }
    }

    func log(_ limits: HistoryLimits = HistoryLimits(), now: Int64 = 1_000) throws -> HistoryLog {
        let root = try OwnedDescriptor.openPath(path)
        return HistoryLog(in: try StoreDirectory.open(".", in: root), limits: limits, now: now) {
            Issue.record("\($0)")
        }
    }

    func text(_ name: String = "events.log") throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)")), as: UTF8.self)
    }

    func size(_ name: String) -> Int {
        var status = stat()
        return stat("\(path)/\(name)", &status) == 0 ? Int(status.st_size) : 0
    }

    func append(_ text: String) throws {
        let file = try #require(FileHandle(forWritingAtPath: "\(path)/events.log"))
        try file.seekToEnd()
        try file.write(contentsOf: Data(text.utf8))
        try file.close()
    }
}

@Suite("The log of the history")
struct HistoryLogTests {
    private let directory: LogDirectory

    init() throws { directory = try LogDirectory() }

    private func event(
        _ path: String, _ kind: HistoryKind = .written, to newPath: String? = nil, at time: Int64 = 1_000,
        by program: String = "vim", process: Int32 = 7, run: String? = nil
    ) -> HistoryEvent {
        var event = HistoryEvent(kind, bytes(path), to: newPath.map(bytes), at: time)
        event.actor = HistoryActor(
            program: bytes(program), process: process, user: 1000, run: run.map(bytes),
            runProcess: run == nil ? nil : 70, runIdentity: run == nil ? nil : "5-1")
        return event
    }

    private func paths(_ events: [HistoryEvent]) -> [String] {
        events.map { String(decoding: $0.path, as: UTF8.self) }
    }

    @Test("the events after a number are complete, in one part of the log or in two, and after a restart")
    func theEventsAfterANumberAreComplete() throws {
        var limits = HistoryLimits()
        limits.fileSize = 40_000
        var log = try directory.log(limits)
        for round in 1...300 {
            log.append((0..<3).map { event("\(round)-\($0)") })
            if round == 150 { log = try directory.log(limits) }
            guard round.isMultiple(of: 50) else { continue }
            let all = try log.events(HistoryQuery(), now: 1_000)
            for back in [0, 1, 2, 3, 7, 100] where back < all.count {
                let query = HistoryQuery(after: log.last - UInt64(back))
                #expect(try paths(log.events(query, now: 1_000)) == paths(Array(all.suffix(back))))
            }
        }
        #expect(directory.size("events.log.1") > 0)
    }

    @Test("an event is read as it was written, with all its fields and any bytes in its path")
    func anEventIsReadAsItWasWritten() throws {
        var event = event("a\tb\n%=\u{1}c", .moved, to: "d.e", run: "agent %1")
        event.path += [0xFF, 0x7F]
        event.author = HistoryActor(program: bytes("sed"), process: 9, user: 0)
        event.generation = "5-7"
        event.version = "00000000000a0000"
        event.detail = "save for cat (712)"
        event.source = bytes("f")
        event.sourceClosed = [FileRights(user: 7, group: 8, mode: 0o40711, accessControlList: nil)]
        event.rights = FileRights(user: 1, group: 2, mode: 0o100640, accessControlList: [2, 0, 0xFE])
        event.closed = [
            FileRights(user: 3, group: 4, mode: 0o40700, accessControlList: nil),
            FileRights(user: 5, group: 6, mode: 0o40750, accessControlList: []),
        ]
        let log = try directory.log()
        log.append([event])
        event = try #require(
            try log.events(HistoryQuery(), now: 1_000).first.map { found in
                #expect(found.number == 1)
                #expect(found.path == event.path && found.newPath == event.newPath)
                #expect(found.actor == event.actor && found.author == event.author)
                #expect(found.rights == event.rights && found.closed == event.closed)
                #expect(found.sourceClosed == event.sourceClosed)
                return found
            })
        #expect(event.generation == "5-7" && event.version == "00000000000a0000")
        #expect(
            event.detail == "save for cat (712)" && event.source == bytes("f") && event.kind == .moved
                && event.time == 1_000)
    }

    @Test("events outlive the daemon, and numbers continue")
    func eventsOutliveTheDaemon() throws {
        try directory.log().append([event("a"), event("b")])
        let log = try directory.log()
        log.append([event("c")])
        let events = try log.events(HistoryQuery(), now: 1_000)
        #expect(paths(events) == ["a", "b", "c"])
        #expect(events.map(\.number) == [1, 2, 3])
        #expect(log.last == 3)
    }

    @Test("the log belongs to its owner alone")
    func theLogBelongsToItsOwner() throws {
        try directory.log().append([event("a")])
        var status = stat()
        #expect(stat("\(directory.path)/events.log", &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600)
    }

    @Test("a torn line is skipped, and the next event has a line of its own", arguments: 1...12)
    func aTornLineIsSkipped(cut: Int) throws {
        try directory.log().append([event("a"), event("b")])
        let whole = try directory.text()
        #expect(truncate("\(directory.path)/events.log", off_t(whole.utf8.count - cut)) == 0)
        let log = try directory.log()
        log.append([event("c")])
        // Only the newline is missing if one byte is cut off: the event is complete.
        #expect(
            paths(try log.events(HistoryQuery(), now: 1_000)) == (cut == 1 ? ["a", "b", "c"] : ["a", "c"]))
    }

    @Test("lines of a later release are read as far as they are known, and other lines are skipped")
    func linesOfALaterReleaseAreRead() throws {
        try directory.log().append([event("a")])
        try directory.append(
            "n=2\tt=1000\tk=frobnicated\tp=b\tz=new\t.\nnonsense\n\nn=x\tt=1\tk=written\tp=c\t.\n")
        let events = try directory.log().events(HistoryQuery(), now: 1_000)
        #expect(paths(events) == ["a", "b"])
        #expect(events[1].kind.rawValue == "frobnicated")
    }

    @Test("the log takes at most twice its limit, and keeps the newest events")
    func theLogIsBounded() throws {
        var limits = HistoryLimits()
        limits.fileSize = 4_000
        let log = try directory.log(limits)
        for number in 1...400 { log.append([event("file-\(number)")]) }
        #expect(directory.size("events.log") + directory.size("events.log.1") <= 8_000)
        let events = try log.events(HistoryQuery(), now: 1_000)
        #expect(events.last?.path == bytes("file-400"))
        #expect(events.count > 40)
        #expect(zip(events, events.dropFirst()).allSatisfy { $0.number + 1 == $1.number })
    }

    @Test("events older than the age limit are not returned, and their file is removed")
    func oldEventsAreDropped() throws {
        var limits = HistoryLimits()
        limits.age = 100
        let log = try directory.log(limits)
        log.append([event("a", at: 1_000)])
        // The first event is older than half of the limit, so the log is rotated.
        log.append([event("b", at: 1_060)])
        #expect(paths(try log.events(HistoryQuery(), now: 1_090)) == ["a", "b"])
        #expect(paths(try log.events(HistoryQuery(), now: 1_110)) == ["b"])
        log.prune(now: 1_090)
        #expect(directory.size("events.log.1") > 0)
        log.prune(now: 1_110)
        #expect(directory.size("events.log.1") == 0)
    }

    @Test("a query finds a document under the paths that it had before its moves")
    func aQueryFollowsMoves() throws {
        let log = try directory.log()
        log.append([
            event("old/a"), event("b"), event("old/a", .moved, to: "new/a"), event("old/a", .created),
            event("new/a"), event("new", .moved, to: "newest"), event("newest/a"),
        ])
        let found = try log.events(HistoryQuery(path: bytes("newest/a")), now: 1_000)
        #expect(found.map(\.number) == [1, 3, 5, 6, 7])
        #expect(try log.events(HistoryQuery(path: bytes("old/a")), now: 1_000).map(\.number) == [1, 3, 4])
        #expect(
            try log.events(HistoryQuery(path: bytes("newest")), now: 1_000).map(\.number) == [1, 3, 5, 6, 7])
        #expect(try log.events(HistoryQuery(path: bytes("ne")), now: 1_000).isEmpty)
    }

    @Test(
        "a query finds the events of a program, of a process and of a run, since a time and between two events"
    )
    func aQueryFindsPrograms() throws {
        let log = try directory.log()
        log.append([
            event("a", at: 1, by: "sed", process: 5), event("b", at: 2, by: "vim", process: 6, run: "agent"),
            event("c", at: 3, by: "sed", process: 8), event("d", at: 4),
        ])
        func numbers(_ query: HistoryQuery) throws -> [UInt64] { try log.events(query, now: 5).map(\.number) }
        #expect(try numbers(HistoryQuery(by: bytes("sed"))) == [1, 3])
        #expect(try numbers(HistoryQuery(by: bytes("6"))) == [2])
        #expect(try numbers(HistoryQuery(by: bytes("agent"))) == [2])
        #expect(try numbers(HistoryQuery(since: 3)) == [3, 4])
        #expect(try numbers(HistoryQuery(after: 1, before: 4)) == [2, 3])
        #expect(try numbers(HistoryQuery(atMost: 2)) == [3, 4])
        let visible = try log.events(HistoryQuery(atMost: 2), now: 5) { $0.path != bytes("d") }
        #expect(visible.map(\.number) == [2, 3])
    }

    @Test("the events before a number are found in the middle of a long log, also between torn lines")
    func theEventsBeforeANumberAreFound() throws {
        var limits = HistoryLimits()
        limits.fileSize = 90_000
        let log = try directory.log(limits)
        for round in 1...500 {
            log.append((0..<5).map { event("\(round)-\($0)", run: round.isMultiple(of: 3) ? "agent" : nil) })
            if round.isMultiple(of: 50) { try directory.append("n=7\tt=1000\tk=writ\n") }
        }
        #expect(directory.size("events.log.1") > 0 && directory.size("events.log") > 1 << 15)
        let all = try log.events(HistoryQuery(), now: 1_000)
        for before in stride(from: all[0].number, through: log.last + 3, by: 97) {
            let page = try log.events(HistoryQuery(before: before, atMost: 30), now: 1_000)
            #expect(page.map(\.number) == all.map(\.number).filter { $0 < before }.suffix(30))
        }
    }

    @Test("a query for the oldest events after a number returns them, and not the newest")
    func aQueryReturnsTheOldest() throws {
        let log = try directory.log()
        log.append((1...100).map { event("\($0)") })
        for most in [1, 7, 60, 90, 200] {
            let found = try log.events(HistoryQuery(after: 10, atMost: most, takesOldest: true), now: 1_000)
            #expect(found.map(\.number) == Array((11...100).prefix(most)))
        }
    }

    @Test("contents that are newer than a step have no name that the contents after the step can have")
    func newerContentsHaveAnotherName() throws {
        try directory.log().append([event("a")])
        let file = try OwnedDescriptor.openPath(directory.path)
        let status = try file.status()
        let time = status.modified.seconds * 1_000_000_000 + Int64(status.modified.nanoseconds)
        let name = HistoryGeneration.name(of: status)
        #expect(HistoryGeneration.name(of: status, leftAt: time) == name)
        #expect(HistoryGeneration.name(of: status, leftAt: time + 1) == name)
        #expect(HistoryGeneration.name(of: status, leftAt: time - 1) != name)
        #expect(HistoryGeneration.name(of: status, leftAt: time - 1_000_000_000) != name)
    }

    @Test("a watcher is called after each append until it is removed")
    func aWatcherIsCalled() throws {
        let log = try directory.log()
        let calls = Counter()
        let watcher = log.watch { calls.add() }
        log.append([event("a")])
        log.append([])
        log.append([event("b"), event("c")])
        #expect(calls.count == 2)
        log.unwatch(watcher)
        log.append([event("d")])
        #expect(calls.count == 2)
    }

    @Test("events that could not be appended are counted, and the next append says how many are missing")
    func missingEventsAreCounted() throws {
        let reports = Counter()
        let root = try OwnedDescriptor.openPath(directory.path)
        let log = HistoryLog(in: try StoreDirectory.open(".", in: root), now: 1_000) { _ in reports.add() }
        let file = "\(directory.path)/events.log"
        // A directory in the place of the file makes each append fail.
        #expect(mkdir(file, 0o700) == 0)
        log.append([event("a"), event("b")])
        log.append([event("c")])
        #expect(reports.count == 1)
        #expect(rmdir(file) == 0)
        log.append([event("d")])
        log.append([event("e")])
        let events = try log.events(HistoryQuery(), now: 1_000)
        #expect(paths(events) == ["", "d", "e"])
        #expect(events[0].kind == .gap && events[0].detail == "3")
    }

    @Test("without a directory, nothing is recorded")
    func withoutADirectoryNothingIsRecorded() throws {
        let log = HistoryLog(in: nil, now: 1_000) { Issue.record("\($0)") }
        log.append([event("a")])
        #expect(try log.events(HistoryQuery(), now: 1_000).isEmpty)
        #expect(!log.isRecording)
    }
}

private final class Counter: Sendable {
    private let number = Mutex(0)
    var count: Int { number.withLock { $0 } }
    func add() { number.withLock { $0 += 1 } }
}
