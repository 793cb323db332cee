// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// What every connection shares.
struct Service: Sendable {
    let mount: ControlledMount
    let status: any StatusSource
    let kept: (any KeptContents)?
    let engine: Engine
    let documents: any DocumentSource
    /// The directory below the mount, as clients may see it.
    let source: any SourceLooking
    let feed: NIOLoopBound<EventFeed>
    let log: @Sendable (String) -> Void

    let watch: ProcessWatch
    let refusals = RecentRefusals()
    /// What guests may do, as the kernel said a moment ago.
    let looks: RecentLooks
    let presentersOfGuests = GuestTally(limit: ProtocolLimits.presentersOfGuest)
    let remarks = GuestRemarks()
    let resting: NIOLoopBound<Crowd>
    let itemsOfGuests = GuestTally(limit: ProtocolLimits.itemsOfGuest)
    let waitsOfGuests = GuestTally(limit: ProtocolLimits.intentsOfGuest)
    /// Makes the purposes of presenters.
    let registrations = Counter()

    let desk: Desk
    /// Answers questions: it reads the store and `/proc`, in no order that matters.
    let readers: Desk
}

/// Counts from one.
final class Counter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
