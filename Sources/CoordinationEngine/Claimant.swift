// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Something the journal can tell about when it is read.
package protocol JournalSubject: AnyObject, Sendable {
    var account: Account { get }
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
    /// What it waits for is another item now; whoever keeps names of items learns of it before it is granted.
    func retarget(from former: ItemID, to item: ItemID)
}

extension Claimant {
    /// Most of them go by handles, or by what they are called in a request, and never wait for anything else.
    package func retarget(from former: ItemID, to item: ItemID) {}
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
package struct Account: Sendable {
    /// Thread id, 0 if nobody's.
    package let thread: Int32
    /// The program's name, if it was looked at while it lived.
    package let program: [UInt8]?
    /// Relative to the source; made when somebody asks, because most accounts are never read.
    package let path: @Sendable () -> [UInt8]

    package init(thread: Int32, program: [UInt8]? = nil, path: @escaping @Sendable () -> [UInt8]) {
        self.thread = thread
        self.program = program
        self.path = path
    }
}
