// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// The accesses of one call of a coordinator, one for each mount. Usually all items are in one mount.
///
/// If there are several mounts, their accesses are requested one after the other, in an order that is the same in all programs.
/// Without this order, two programs could wait for each other's accesses.
final class AccessGroup: Sendable {
    typealias GroupCompletion = @Sendable (Result<GrantedAccesses, any Error>) -> Void

    /// The accesses that are granted so far.
    struct GrantedAccesses: Sendable {
        var accesses: [HeldAccess] = []
        /// The URLs that the items have now, in the order in which the caller gave the items.
        var urls: [URL]

        func end() {
            for access in accesses { access.end() }
        }

        /// Throws if an access was lost because its daemon has ended. In this case the accessor must not run.
        func check() throws(FileCoordinationError) {
            guard let lost = accesses.first(where: { !$0.isHeld }) else { return }
            end()
            throw .disconnected(lost.connection.printable)
        }
    }

    private struct State {
        var isCancelled = false
        var currentAccess: PendingAccess?
        /// Questions that can be answered only after the end of all these accesses.
        var deferredQuestions: [IncomingQuestion] = []
        var granted: GrantedAccesses
    }

    private let locations: [FileLocation]
    private let accessRequests: [(accessRequest: MountAccessRequest, places: [Int])]
    private let accessContext: AccessContext
    private let state: Mutex<State>

    /// Finds the mounts of the items, but sends no request yet.
    init(
        _ items: [AccessItem], purpose: String, isBatch: Bool = false,
        within accessContext: AccessContext
    ) throws(FileCoordinationError) {
        var locations: [FileLocation] = []
        for item in items { locations.append(try FileLocation(item.url)) }
        let mounts = Dictionary(grouping: locations.indices) { locations[$0].connection.mountpoint }
        accessRequests = mounts.values.sorted {
            locations[$0[0]].connection.mountpoint.lexicographicallyPrecedes(
                locations[$1[0]].connection.mountpoint)
        }
        .map { places in
            let intents = places.map {
                IntentForm(
                    locations[$0].pathInMount, items[$0].access, ifGeneration: items[$0].ifGeneration)
            }
            let accessRequest = MountAccessRequest(
                connection: locations[places[0]].connection, intents: intents, purpose: purpose,
                isBatch: isBatch)
            return (accessRequest, places)
        }
        self.locations = locations
        self.accessContext = accessContext
        state = Mutex(State(granted: GrantedAccesses(urls: locations.map(\.url))))
    }

    /// Connects to the daemons, which can take a moment, and then requests the accesses. `outcome` is called when all accesses
    /// are granted or one access is refused.
    func begin(_ outcome: @escaping GroupCompletion) {
        do throws(FileCoordinationError) {
            for (accessRequest, _) in accessRequests { try accessRequest.connection.connect() }
        } catch {
            return outcome(.failure(error))
        }
        begin(0, outcome)
    }

    /// Stops waiting for the accesses. Does nothing if all of them are already granted.
    func cancel() {
        let currentAccess = state.withLock { state in
            state.isCancelled = true
            return state.currentAccess
        }
        currentAccess?.cancel()
    }

    private func begin(_ index: Int, _ outcome: @escaping GroupCompletion) {
        guard index < accessRequests.count else { return outcome(result()) }
        let (accessRequest, places) = accessRequests[index]
        let access = PendingAccess(accessRequest, within: accessContext) { [self] result in
            switch result {
            case .success(let granted):
                state.withLock { state in
                    state.granted.accesses.append(granted.access)
                    for (place, path) in zip(places, granted.paths) {
                        state.granted.urls[place] = accessRequest.connection.url(
                            path, isDirectory: locations[place].isDirectory)
                    }
                }
                begin(index + 1, outcome)
            case .failure(let error):
                state.withLock { $0.granted }.end()
                outcome(.failure(error))
            }
        }
        let (isCancelled, deferredQuestions) = state.withLock { state in
            state.currentAccess = access
            return (state.isCancelled, state.deferredQuestions)
        }
        for question in deferredQuestions { access.deferUntilEnd(question) }
        if isCancelled { access.cancel() }
        access.begin()
    }

    /// Returns the granted accesses. Returns a failure if an access was lost while the remaining accesses still waited.
    private func result() -> Result<GrantedAccesses, any Error> {
        let granted = state.withLock { $0.granted }
        do throws(FileCoordinationError) {
            try granted.check()
            return .success(granted)
        } catch {
            return .failure(error)
        }
    }

    /// Blocks until all accesses are granted or one access is refused. During this time, ``BlockedQueueTable`` handles the
    /// questions that wait on the caller's queue.
    func wait() throws -> GrantedAccesses {
        let promise = BlockingPromise<Result<GrantedAccesses, any Error>>()
        return try BlockedQueueTable.shared.blocking(OperationQueue.current, by: self) {
            begin { promise.fulfill($0) }
            return promise.wait()
        }.get()
    }

    /// Records that a question can be answered only after the end of these accesses.
    func deferUntilEnd(_ question: IncomingQuestion) {
        let currentAccess = state.withLock { state in
            state.deferredQuestions.append(question)
            return state.currentAccess
        }
        currentAccess?.deferUntilEnd(question)
    }
}
