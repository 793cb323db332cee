// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Synchronization

/// Manages the data of open files: whether the kernel or the daemon moves the data, and which data the kernel may cache.
///
/// - ``enterRoute(_:through:knowing:isNew:for:)``: decides whether the kernel or the daemon moves the data of a file.
/// - ``beginData(of:through:created:looking:for:)``: opens the file below, so that a handle can read and write it.
/// - ``mayReusePageCache(for:)``: decides whether the kernel may use the pages that it has cached.
/// - ``stripPrivileges(of:writtenBy:)``: removes the set-user-ID and set-group-ID bits of a file when a program writes to it.
/// - ``accessPattern(of:)``: tells how the program of a handle can share the file with other programs.
final class DataPlane: Sendable {
    let lingeringHandles = LingeringHandles()
    let advisoryLocks = AdvisoryLocks()
    let pageCachePolicy = PageCachePolicy()
    /// The monotonic time at which a file of the source was last opened for writing, in nanoseconds; 0 if there was none.
    let lastOpenedToWrite = Atomic<UInt64>(0)
    /// How many open files have a data route, and which data path the mount uses.
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
