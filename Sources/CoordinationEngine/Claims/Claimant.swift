// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// The subject of a journal step, which describes itself when the journal is read.
package protocol JournalSubject: AnyObject, Sendable {
    var attribution: Attribution { get }
}

/// The object behind a claim, which answers what the arbiter does not know.
///
/// Called on any thread, never under a lock.
package protocol Claimant: JournalSubject {
    /// The intents of the claim, one for each part; the first is that of the attribution.
    var intents: [Intent] { get }
    /// The party of the claim, or ``Coordination/Party/nobody``.
    func identify() -> Party
    /// Observes what the holder has done to its file.
    func observe() -> Observation
    /// The user that has opened the file, if known without the process. Never blocks, and so is also read under the
    /// lock.
    var opener: UInt32? { get }
    /// Whether its user may also write the file that it reads. May block.
    func userMayWrite() -> Bool
    /// The threads for observations that may take long; nil for the engine's workers.
    var observationThreads: LazyWorkerPool? { get }
    /// The claim waits for another item now. A claimant that stores names of items is told before the grant.
    func retarget(from former: ItemID, to item: ItemID)
}

extension Claimant {
    /// Most claimants use handles or the names of a request, and never wait for another item.
    package func retarget(from former: ItemID, to item: ItemID) {}
    package var observationThreads: LazyWorkerPool? { nil }
    package var opener: UInt32? { nil }
    package func userMayWrite() -> Bool { true }
}

/// A claimed item, and the access to it.
package struct Intent: Sendable {
    package let access: Access
    /// Relative to the source; made on demand.
    package let path: @Sendable () -> [UInt8]

    package init(_ access: Access, to path: @escaping @Sendable () -> [UInt8]) {
        self.access = access
        self.path = path
    }
}

/// The process, user and path of an action, as far as known when it happened.
package struct Attribution: Sendable {
    /// The thread id, 0 if unknown.
    package let thread: Int32
    /// When the thread acted: a thread that started later with the same number is another one.
    package let acted: Instant
    /// The process and its program's name, if they were read while it lived.
    package let process: Int32?
    package let program: [UInt8]?
    /// The process's user, if known without the process.
    package let user: UInt32?
    /// Relative to the source; made on demand, because most attributions are never read.
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

    /// The attribution of a party that was identified before; its unknown properties are not looked up now.
    package init(of party: Party, path: @escaping @Sendable () -> [UInt8]) {
        self.init(
            thread: 0, at: Engine.now, process: party.process?.number ?? 0, program: party.program,
            user: party.user, path: path)
    }

    /// An attribution without a process.
    package init(path: @escaping @Sendable () -> [UInt8]) {
        self.init(thread: 0, at: Engine.now, path: path)
    }
}
