// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// The services that all connections share.
struct SharedServices: Sendable {
    let mount: ControlledMount
    let status: any StatusSource
    let preservedVersions: (any PreservedVersions)?
    let engine: Engine
    let documents: any DocumentSource
    /// The directory below the mount, for checks of clients' rights.
    let source: any SourceInspector
    let feed: NIOLoopBound<EventFeed>
    let log: @Sendable (String) -> Void

    let watch: ProcessWatch
    let refusals = RecentRefusals()
    /// The kernel's recent answers about rights of guests.
    let rightsCache: RightsCache
    let presentersOfGuests = GuestQuota(limit: ProtocolLimits.presentersOfGuest)
    let guestLogLimiter = GuestLogLimiter()
    let readThrottle: NIOLoopBound<ReadThrottle>
    let itemsOfGuests = GuestQuota(limit: ProtocolLimits.itemsOfGuest)
    let waitsOfGuests = GuestQuota(limit: ProtocolLimits.intentsOfGuest)
    /// Numbers the purposes of presenters.
    let registrationNumbers = SequenceCounter()

    let workQueue: FairWorkQueue
    /// Runs queries of the store and `/proc`, in no particular order.
    let readQueue: FairWorkQueue
}

/// Counts from 1.
final class SequenceCounter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
