// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// What one call of a coordinator wants: nearly always of one mount; if of several, one after the other, in the same order
/// in every program, so that no two wait for each other.
final class AccessGroup: Sendable {
    typealias Outcome = @Sendable (Result<Granted, any Error>) -> Void

    /// All that was granted.
    struct Granted: Sendable {
        var accesses: [HeldAccess] = []
        /// Where the items are now, in the order in which they were asked for.
        var urls: [URL]

        func end() {
            for access in accesses { access.end() }
        }

        /// What was granted is lost when the daemon goes: whoever has not begun must not begin then.
        func check() throws(FileCoordinationError) {
            guard let lost = accesses.first(where: { !$0.isHeld }) else { return }
            end()
            throw .disconnected(lost.link.shown)
        }
    }

    private struct State {
        var isCancelled = false
        var present: PendingAccess?
        /// What cannot be answered before all of it has ended.
        var later: [PresentedQuestion] = []
        var granted: Granted
    }

    private let locations: [FileLocation]
    private let wishes: [(wish: Wish, places: [Int])]
    private let nesting: Nesting
    private let state: Mutex<State>

    /// Finds out where everything is; what is asked for is not sent yet.
    init(
        _ items: [(url: URL, access: Access)], purpose: String, isBatch: Bool = false, within nesting: Nesting
    ) throws(FileCoordinationError) {
        var locations: [FileLocation] = []
        for item in items { locations.append(try FileLocation(item.url)) }
        let mounts = Dictionary(grouping: locations.indices) { locations[$0].link.mountpoint }
        wishes = mounts.values.sorted {
            locations[$0[0]].link.mountpoint.lexicographicallyPrecedes(locations[$1[0]].link.mountpoint)
        }
        .map { places in
            let intents = places.map { IntentForm(locations[$0].inside, items[$0].access) }
            let wish = Wish(
                link: locations[places[0]].link, intents: intents, purpose: purpose, isBatch: isBatch)
            return (wish, places)
        }
        self.locations = locations
        self.nesting = nesting
        state = Mutex(State(granted: Granted(urls: locations.map(\.url))))
    }

    /// Connects, which may take a moment, and begins.
    func begin(_ outcome: @escaping Outcome) {
        do throws(FileCoordinationError) {
            for (wish, _) in wishes { try wish.link.connect() }
        } catch {
            return outcome(.failure(error))
        }
        begin(0, outcome)
    }

    /// Stops waiting, unless all is granted.
    func cancel() {
        let present = state.withLock { state in
            state.isCancelled = true
            return state.present
        }
        present?.cancel()
    }

    private func begin(_ index: Int, _ outcome: @escaping Outcome) {
        guard index < wishes.count else { return outcome(result()) }
        let (wish, places) = wishes[index]
        let access = PendingAccess(wish, within: nesting) { [self] result in
            switch result {
            case .success(let granted):
                state.withLock { state in
                    state.granted.accesses.append(granted.access)
                    for (place, path) in zip(places, granted.paths) {
                        state.granted.urls[place] = wish.link.url(
                            path, isDirectory: locations[place].isDirectory)
                    }
                }
                begin(index + 1, outcome)
            case .failure(let error):
                state.withLock { $0.granted }.end()
                outcome(.failure(error))
            }
        }
        let (isCancelled, later) = state.withLock { state in
            state.present = access
            return (state.isCancelled, state.later)
        }
        for question in later { access.mustPrecede(question) }
        if isCancelled { access.cancel() }
        access.begin()
    }

    /// All that was granted; the first may be lost when the last one is granted.
    private func result() -> Result<Granted, any Error> {
        let granted = state.withLock { $0.granted }
        do throws(FileCoordinationError) {
            try granted.check()
            return .success(granted)
        } catch {
            return .failure(error)
        }
    }

    /// Blocks until it is granted or refused; what waits on the caller's queue meanwhile is taken care of.
    func wait() throws -> Granted {
        let settled = Awaited<Result<Granted, any Error>>()
        return try QueueBook.shared.blocking(OperationQueue.current, by: self) {
            begin { settled.settle($0) }
            return settled.wait()
        }.get()
    }

    /// A request to a presenter cannot be answered before this has ended.
    func mustPrecede(_ question: PresentedQuestion) {
        let present = state.withLock { state in
            state.later.append(question)
            return state.present
        }
        present?.mustPrecede(question)
    }
}
