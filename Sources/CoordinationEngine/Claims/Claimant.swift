// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// The subject of a step in the journal. Its process and path are determined only when the journal is read.
package protocol JournalSubject: AnyObject, Sendable {
    var attribution: Attribution { get }
}

/// The object that has made a claim. It tells the engine facts that the arbiter does not know.
///
/// Its methods may be called on any thread, but never under a lock, except `opener`.
package protocol Claimant: JournalSubject {
    /// The accesses of the claim, one for each part. The first is on the path of the attribution.
    var intents: [Intent] { get }
    /// The party that has made the claim; ``Coordination/Party/nobody`` if it cannot be found.
    func identify() -> Party
    /// Finds out how the holder has used its file.
    func observe() -> Observation
    /// The user that has opened the file; nil if that is known only by a look-up of the process. This property never
    /// blocks, so it is also read under the lock.
    var opener: UInt32? { get }
    /// Whether the user of the reader may also write the file. The call may block.
    func userMayWrite() -> Bool
    /// The threads for observations that may take long; nil if the engine's workers make them.
    var observationThreads: LazyWorkerPool? { get }
    /// Tells the claimant that its claim waits for another item now. The call comes before the grant. A claimant that
    /// stores names of items updates them.
    func retarget(from former: ItemID, to item: ItemID)
}

extension Claimant {
    /// Most claims are of handles, or of names in a request. They never wait for another item, so the default does
    /// nothing.
    package func retarget(from former: ItemID, to item: ItemID) {}
    package var observationThreads: LazyWorkerPool? { nil }
    package var opener: UInt32? { nil }
    package func userMayWrite() -> Bool { true }
}

/// An access of a claim: what a program does with which path.
package struct Intent: Sendable {
    package let access: Access
    /// The path relative to the source; determined when it is called.
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
    /// The process, and in the next property the name of its program. Nil if they were not read while the process
    /// lived.
    package let process: Int32?
    package let program: [UInt8]?
    /// The user of the process; nil if the user is known only by a look-up of the process.
    package let user: UInt32?
    /// The path relative to the source; determined when it is called, because most attributions are never read.
    package let path: @Sendable () -> [UInt8]

    package init(
        thread: Int32, at acted: Instant, process: Int32? = nil, program: [UInt8]? = nil, user: UInt32? = nil,
        path: @escaping @Sendable () -> [UInt8]
    ) {
        self.thread = thread
        self.acted = acted
        self.process = process
        self.program = program
        self.user = user
        self.path = path
    }

    /// The attribution of a party that was identified before. Unknown properties of the party are not looked up now.
    package init(of party: Party, path: @escaping @Sendable () -> [UInt8]) {
        self.init(
            thread: 0, at: Engine.now, process: party.process?.number ?? 0, program: party.program,
            user: party.user, path: path)
    }

    /// The attribution of an action with an unknown process.
    package init(path: @escaping @Sendable () -> [UInt8]) {
        self.init(thread: 0, at: Engine.now, path: path)
    }
}
