// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// What every connection shares.
struct SharedServices: Sendable {
    let mount: ControlledMount
    let status: any StatusSource
    let preservedVersions: (any PreservedVersions)?
    let engine: Engine
    let documents: any DocumentSource
    /// The directory below the mount, as clients may see it.
    let source: any SourceInspector
    let feed: NIOLoopBound<EventFeed>
    let log: @Sendable (String) -> Void

    let watch: ProcessWatch
    let refusals = RecentRefusals()
    /// What guests may do, as the kernel said a moment ago.
    let rightsCache: RightsCache
    let presentersOfGuests = GuestQuota(limit: ProtocolLimits.presentersOfGuest)
    let guestLogLimiter = GuestLogLimiter()
    let readThrottle: NIOLoopBound<ReadThrottle>
    let itemsOfGuests = GuestQuota(limit: ProtocolLimits.itemsOfGuest)
    let waitsOfGuests = GuestQuota(limit: ProtocolLimits.intentsOfGuest)
    /// Makes the purposes of presenters.
    let registrationNumbers = SequenceCounter()

    let workQueue: FairWorkQueue
    /// Answers questions: it reads the store and `/proc`, in no order that matters.
    let readQueue: FairWorkQueue
}

/// Counts from one.
final class SequenceCounter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
