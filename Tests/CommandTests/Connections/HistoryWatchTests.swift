// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Synchronization
import Testing

import func TestSupport.eventually

/// A history whose events are for no client, except one event.
private final class QuietHistory: DocumentHistory {
    private struct State {
        var last: UInt64 = 5
        /// The numbers after which events were looked for.
        var looks: [UInt64] = []
        var watchers: [UInt64: @Sendable () -> Void] = [:]
        var nextWatcher: UInt64 = 0
    }

    private let visible: UInt64
    private let state = Mutex(State())

    init(visible: UInt64) { self.visible = visible }

    var last: UInt64 { state.withLock(\.last) }
    var looks: [UInt64] { state.withLock(\.looks) }
    var watchers: Int { state.withLock(\.watchers.count) }

    /// Adds the events up to a number.
    func grow(to number: UInt64) {
        let watchers = state.withLock { state in
            state.last = number
            return Array(state.watchers.values)
        }
        for call in watchers { call() }
    }

    func events(_ query: HistoryListParameters, for peer: Peer) -> [HistoryEventForm] {
        // A list appends the steps that are noted, so it can have events after `last`.
        [event(at: query.path.bytes ?? [])]
    }

    private func event(at path: [UInt8]) -> HistoryEventForm {
        let actor = HistoryActorForm(program: "sed", pid: 7, user: 0, run: nil, runPid: nil)
        return HistoryEventForm(number: visible, time: 1, kind: "written", path: path, actor: actor)
    }

    func events(after number: UInt64, under path: [UInt8], for peer: Peer) -> [HistoryEventForm] {
        state.withLock { state in
            state.looks.append(number)
            return number < visible && visible <= state.last ? [event(at: path)] : []
        }
    }

    func watch(_ call: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.nextWatcher += 1
            state.watchers[state.nextWatcher] = call
            return state.nextWatcher
        }
    }

    func unwatch(_ watcher: UInt64) { state.withLock { $0.watchers[watcher] = nil } }
}

@Suite("Watches of the history")
struct HistoryWatchTests {
    @Test("a watch that follows a list does not return the events of the list again")
    func aWatchFollowsAList() throws {
        try withServer(history: QuietHistory(visible: 7)) { server in
            let client = try server.connect()
            try client.send(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"# + "\n")
            #expect(try client.line().contains("result"))
            try client.send(#"{"jsonrpc":"2.0","id":2,"method":"history/list","params":{"path":"a"}}"# + "\n")
            let reply = try client.line()
            #expect(reply.contains(#""last":7"#), "\(reply)")
        }
    }

    @Test("a watch of a quiet document looks at each event once, and ends with the first event for it")
    func aWatchLooksAtEachEventOnce() throws {
        let history = QuietHistory(visible: 40)
        try withServer(history: history) { server in
            let client = try server.connect()
            try client.send(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"# + "\n")
            #expect(try client.line().contains("result"))
            try client.send(
                #"{"jsonrpc":"2.0","id":2,"method":"history/watch","params":{"path":"a","after":2}}"# + "\n")
            for (step, number) in [UInt64(10), 20, 30].enumerated() {
                try eventually(within: .seconds(10), "look \(step + 1) for events") {
                    history.looks.count == step + 1
                }
                // If the look is not over yet, the new events cause another look after it.
                history.grow(to: number)
            }
            try eventually(within: .seconds(10), "the last look") { history.looks.count == 4 }
            #expect(history.looks == [2, 5, 10, 20])
            history.grow(to: 40)
            let reply = try client.line()
            #expect(reply.contains(#""last":40"#) && reply.contains(#""number":40"#), "\(reply)")
            try eventually(within: .seconds(10), "the end of the watch") { history.watchers == 0 }
        }
    }
}
