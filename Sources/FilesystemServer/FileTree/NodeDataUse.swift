// SPDX-License-Identifier: Apache-2.0
import FuseBridge

/// Which side moves a file's data.
enum DataRoute: Sendable {
    /// The kernel, directly to the file below.
    case backing(BackingID)
    /// This process.
    case daemon
}

/// The open handles of a node, the route of its data, and the backing file for it.
///
///     closed ──the first open enters a route──▶ open ──further opens enter the same route──▶ open
///        ▲                                        │
///        ╰────────────the last handle leaves──────╯
///
/// | transition | function |
/// |---|---|
/// | to open | ``enterInUse(mapping:)``, ``enter(_:mapping:)`` |
/// | to closed | ``leave(mapping:)`` |
/// | backing file held | ``offer(_:ownerChanges:)``, ``retain(_:)`` |
/// | backing file outdated, closed | ``noteOwnerChange()``, ``takeUnusedBacking(of:)`` |
///
/// 1. All open handles use one route: the kernel refuses handles of one inode in two modes.
/// 2. Mappers are open handles with the `backing` route.
/// 3. A `backing` route is entered only by the usable backing file.
/// 4. The backing file is held until the kernel forgets the inode, or until no open remains and
///    ``NodeReach/mayLoseBacking(isOutdated:)`` is true.
struct NodeDataUse {
    private enum Use {
        case closed
        /// `mappers`: how many of the handles may change the file unnoticed, by a shared mapping.
        case open(count: Int32, mappers: Int32, route: DataRoute)
    }

    private struct Backing {
        let id: BackingID
        /// The file below was opened as a user that is no longer the file's owner: as the daemon, or before a chown.
        var isOutdated: Bool
    }

    private var use = Use.closed
    /// Whether the kernel may move the data at all; nil until that was checked.
    var mayBypass: Bool?
    /// How often the file's owner was changed through the mount.
    private(set) var ownerChanges: UInt32 = 0
    private var backing: Backing?

    var opens: Int32 {
        switch use {
        case .closed: 0
        case .open(let count, _, _): count
        }
    }

    var hasMappers: Bool {
        switch use {
        case .closed: false
        case .open(_, let mappers, _): mappers > 0
        }
    }

    var route: DataRoute? {
        switch use {
        case .closed: nil
        case .open(_, _, let route): route
        }
    }

    var backingID: BackingID? { backing?.id }
    /// The backing file for the next open. An outdated one is used only while other opens use it.
    var usableBacking: BackingID? { backing.flatMap { $0.isOutdated && opens == 0 ? nil : $0.id } }
    /// Whether the next open needs no new backing file, and the kernel moves its data.
    var isKnownPassthrough: Bool { mayBypass == true && backing?.isOutdated == false }

    /// Counts a handle that uses the route of the other open handles. Nil if there are none.
    mutating func enterInUse(mapping: Bool) -> DataRoute? {
        guard let route else { return nil }
        return enter(by: route, mapping: mapping)
    }

    /// Counts a handle. Another thread may have chosen a route meanwhile: then its choice holds. Nil if the wanted backing
    /// file is not usable any more.
    mutating func enter(_ wanted: DataRoute, mapping: Bool) -> DataRoute? {
        let route = self.route ?? wanted
        if case .backing(let id) = route, usableBacking?.rawValue != id.rawValue { return nil }
        return enter(by: route, mapping: mapping)
    }

    private mutating func enter(by route: DataRoute, mapping: Bool) -> DataRoute {
        var isMapper = false
        if mapping, case .backing = route { isMapper = true }
        switch use {
        case .closed: use = .open(count: 1, mappers: isMapper ? 1 : 0, route: route)
        case .open(let count, let mappers, _):
            use = .open(count: count + 1, mappers: isMapper ? mappers + 1 : mappers, route: route)
        }
        return route
    }

    /// Uncounts a handle. Returns whether it was the last one that may be mapped.
    mutating func leave(mapping: Bool) -> Bool {
        guard case .open(let count, var mappers, let route) = use else { return false }
        var wasLastMapper = false
        if mapping, case .backing = route {
            mappers -= 1
            wasLastMapper = mappers == 0
        }
        use = count == 1 ? .closed : .open(count: count - 1, mappers: mappers, route: route)
        return wasLastMapper
    }

    /// Offers a backing file that was opened when the owner had changed `ownerChanges` times. Returns the one to be used,
    /// and one to be closed.
    mutating func offer(
        _ opened: BackingID, ownerChanges: UInt32
    ) -> (kept: BackingID, needless: BackingID?) {
        if let usableBacking { return (usableBacking, opened) }
        defer { backing = Backing(id: opened, isOutdated: self.ownerChanges != ownerChanges) }
        return (opened, backing?.id)
    }

    /// Holds a backing file that the daemon has opened as itself, unless there is one. Returns one to be closed.
    mutating func retain(_ opened: BackingID) -> BackingID? {
        guard backing == nil else { return opened }
        backing = Backing(id: opened, isOutdated: true)
        return nil
    }

    mutating func noteOwnerChange() {
        ownerChanges &+= 1
        backing?.isOutdated = true
    }

    /// The backing file to be closed, if no open uses it and the file does not need it.
    mutating func takeUnusedBacking(of reach: NodeReach) -> BackingID? {
        guard opens == 0, let known = backing, reach.mayLoseBacking(isOutdated: known.isOutdated) else {
            return nil
        }
        backing = nil
        return known.id
    }
}
