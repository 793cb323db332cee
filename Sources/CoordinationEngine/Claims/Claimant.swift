// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// Something the journal can tell about when it is read.
package protocol JournalSubject: AnyObject, Sendable {
    var attribution: Attribution { get }
}

/// What stands behind a claim, for the questions the arbiter cannot answer itself.
///
/// Asked on any thread, never under a lock.
package protocol Claimant: JournalSubject {
    /// What the claim is about, one for each of its parts; the first is that of the account.
    var intents: [Intent] { get }
    /// Who made the claim, or ``Coordination/Party/nobody``.
    func identify() -> Party
    /// What the holder has done to its file.
    func observe() -> Observation
    /// The user that has opened it, where that is known without the process. It is at hand, and so is asked under the lock, too.
    var opener: UInt32? { get }
    /// Whether its user may also write what it reads. May block.
    func userMayWrite() -> Bool
    /// Who looks at its file, if that may take longer than a look at what is at hand; nil for the engine's workers.
    var observationThreads: LazyWorkerPool? { get }
    /// What it waits for is another item now; whoever keeps names of items learns of it before it is granted.
    func retarget(from former: ItemID, to item: ItemID)
}

extension Claimant {
    /// Most of them go by handles, or by what they are called in a request, and never wait for anything else.
    package func retarget(from former: ItemID, to item: ItemID) {}
    package var observationThreads: LazyWorkerPool? { nil }
    package var opener: UInt32? { nil }
    package func userMayWrite() -> Bool { true }
}

/// One item that is claimed, and what for.
package struct Intent: Sendable {
    package let access: Access
    /// Relative to the source; made when somebody asks.
    package let path: @Sendable () -> [UInt8]

    package init(_ access: Access, to path: @escaping @Sendable () -> [UInt8]) {
        self.access = access
        self.path = path
    }
}

/// Who and where, as far as it was known when it happened.
package struct Attribution: Sendable {
    /// Thread id, 0 if nobody's.
    package let thread: Int32
    /// When the thread did it: a younger one that has its number is somebody else.
    package let acted: Instant
    /// The process and its program's name, if they were looked at while it lived.
    package let process: Int32?
    package let program: [UInt8]?
    /// The process's user, if known without the process.
    package let user: UInt32?
    /// Relative to the source; made when somebody asks, because most accounts are never read.
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

    /// Of somebody who was looked at before; whatever was not seen then is not asked for now.
    package init(of party: Party, path: @escaping @Sendable () -> [UInt8]) {
        self.init(
            thread: 0, at: Engine.now, process: party.process?.number ?? 0, program: party.program,
            user: party.user, path: path)
    }

    /// Of something that nobody in particular did.
    package init(path: @escaping @Sendable () -> [UInt8]) {
        self.init(thread: 0, at: Engine.now, path: path)
    }
}
