// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Synchronization

/// The data of open files: by which route it moves, what the kernel may cache of it, and what its writers may do.
///
/// - ``enterRoute(_:through:knowing:isNew:for:)``: the kernel or this process moves the data.
/// - ``beginData(of:through:created:looking:for:)``: the data of a handle is reachable.
/// - ``mayReusePageCache(for:)``: the kernel keeps the pages that it has.
/// - ``stripPrivileges(of:writtenBy:)``: a write takes the privileges of a file away.
/// - ``accessPattern(of:)``: how a handle can share the file with others.
final class DataPlane: Sendable {
    let lingeringHandles = LingeringHandles()
    let advisoryLocks = AdvisoryLocks()
    let pageCachePolicy = PageCachePolicy()
    /// When a file of the source was last opened for writing, or 0.
    let lastOpenedToWrite = Atomic<UInt64>(0)
    /// How often each data route was used so far.
    let routeStatistics = DataRouteStatistics()
    let context: MountContext
    let sourceWatch: SourceWatch
    let engine: Engine
    let connection: Connection
    let processes: ProcessResolver
    let submounts: Submounts
    let handles: HandleTable

    init(_ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch) {
        self.context = context
        self.sourceWatch = sourceWatch
        engine = context.engine
        connection = context.connection
        processes = context.processes
        submounts = context.submounts
        handles = tree.handles
    }
}
