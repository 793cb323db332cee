// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// The services of the daemon that all connections share.
struct SharedServices: Sendable {
    let mount: ControlledMount
    let status: any StatusSource
    let preservedVersions: (any PreservedVersions)?
    /// The history of the mount's documents; nil if none is recorded.
    let history: (any DocumentHistory)?
    let engine: Engine
    let documents: any DocumentSource
    /// The configuration files; nil if the mount has none.
    let settings: (any SettingSource)?
    /// The directory below the mount, which answers whether a client has the right to access a file.
    let source: any SourceInspector
    let feed: NIOLoopBound<EventFeed>
    let log: @Sendable (String) -> Void

    let watch: ProcessWatch
    let refusals = RecentRefusals()
    /// The kernel's latest answers to the question which rights a guest has.
    let rightsCache: RightsCache
    let presentersOfGuests = GuestQuota(limit: ProtocolLimits.presentersOfGuest)
    let guestLogLimiter = GuestLogLimiter()
    let readThrottle: NIOLoopBound<ReadThrottle>
    let itemsOfGuests = GuestQuota(limit: ProtocolLimits.itemsOfGuest)
    let waitsOfGuests = GuestQuota(limit: ProtocolLimits.intentsOfGuest)
    /// The numbers from which purposes are made for presenters that were registered without a purpose.
    let registrationNumbers = SequenceCounter()

    let workQueue: FairWorkQueue
    /// Threads for queries of the store and of `/proc`, which run in no particular order.
    let readQueue: FairWorkQueue
}

/// Returns the numbers 1, 2, 3 and so on, on any thread.
final class SequenceCounter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
