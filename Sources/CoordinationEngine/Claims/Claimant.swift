// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// The subject of a step in the journal. The subject's process and path are looked up only when the journal is read.
package protocol JournalSubject: AnyObject, Sendable {
    var attribution: Attribution { get }
}

/// The object that has made a claim. The engine asks it for facts that the arbiter does not know.
///
/// The methods are called on any thread, but never under a lock. Only the property `opener` is also read under a lock.
package protocol Claimant: JournalSubject {
    /// The accesses of the claim, one for each part. The first access is on the path that `attribution` has.
    var intents: [Intent] { get }
    /// The party that has made the claim; ``Coordination/Party/nobody`` if it cannot be found.
    func identify() -> Party
    /// Finds out how the holder has used its file.
    func observe() -> Observation
    /// The user that has opened the file; nil if only a look-up of the process can find the user. This property never
    /// blocks, so it is also read under the lock.
    var opener: UInt32? { get }
    /// Whether the user of the reader is also allowed to write the file. The call can block.
    func userMayWrite() -> Bool
    /// The threads for observations of this claim that can take long; nil if the engine's workers make the
    /// observations.
    var observationThreads: LazyWorkerPool? { get }
    /// Whether the program may have the file open. Then it can change the file without a further request.
    var mayChangeFileUnasked: Bool { get }
    /// Tells the claimant that its claim is on another item now. The call comes before the grant of the claim.
    func retarget(from former: ItemID, to item: ItemID)
    /// Tells the claimant that its claim was suspended at a time limit or because of a deadlock.
    func didSuspend(because reason: Suspension)
}

extension Claimant {
    package var mayChangeFileUnasked: Bool { true }
    /// Does nothing, because most claims never move to another item.
    package func retarget(from former: ItemID, to item: ItemID) {}
    /// Does nothing, because most programs need not know.
    package func didSuspend(because reason: Suspension) {}
    package var observationThreads: LazyWorkerPool? { nil }
    package var opener: UInt32? { nil }
    package func userMayWrite() -> Bool { true }
}

/// An access of a claim: what a program does with which path.
package struct Intent: Sendable {
    package let access: Access
    /// Returns the path relative to the source, as it is at the time of the call.
    package let path: @Sendable () -> [UInt8]

    package init(_ access: Access, to path: @escaping @Sendable () -> [UInt8]) {
        self.access = access
        self.path = path
    }
}

/// The process, user and path of an action, as far as they were known when the action happened.
package struct Attribution: Sendable {
    /// The id of the thread that acted, 0 if unknown.
    package let thread: Int32
    /// The moment of the action. A thread that has started later is another thread, even if its id is the same.
    package let acted: Instant
    /// The process; nil if it was not looked up while the process lived.
    package let process: Int32?
    package let program: [UInt8]?
    /// The user of the process; nil if the user can be found only by a look-up of the process.
    package let user: UInt32?
    /// The run of the process; nil if there is none, or if the process was not looked up.
    package let run: RunID?
    /// Returns the path relative to the source. The path is looked up only by the call, because most attributions are
    /// never read.
    package let path: @Sendable () -> [UInt8]

    package init(
        thread: Int32, at acted: Instant, process: Int32? = nil, program: [UInt8]? = nil, user: UInt32? = nil,
        run: RunID? = nil, path: @escaping @Sendable () -> [UInt8]
    ) {
        self.thread = thread
        self.acted = acted
        self.process = process
        self.program = program
        self.user = user
        self.run = run
        self.path = path
    }

    /// The attribution of an action of a party that was identified before. Properties that the party does not have stay
    /// unknown.
    package init(of party: Party, path: @escaping @Sendable () -> [UInt8]) {
        self.init(
            thread: 0, at: Engine.now, process: party.shownProcess, program: party.program,
            user: party.user, run: party.isLease ? nil : party.run, path: path)
    }

    /// The attribution of an action with an unknown process.
    package init(path: @escaping @Sendable () -> [UInt8]) {
        self.init(thread: 0, at: Engine.now, path: path)
    }
}
