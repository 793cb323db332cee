// SPDX-License-Identifier: Apache-2.0
import FuseBridge

/// The route by which the data of a file moves between programs and the file below.
enum DataRoute: Sendable {
    /// Passthrough: the kernel reads and writes the backing file itself.
    case backing(BackingID)
    /// The kernel sends READ and WRITE requests, and the daemon reads and writes the file below.
    case daemon
}

/// The number of open handles of a node, the route of the file's data, and the backing file for passthrough.
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
/// 1. All open handles use one route: the kernel refuses two handles of one inode with different routes.
/// 2. Mappers are open handles for reading and writing with the `backing` route.
/// 3. A handle gets the `backing` route only with the usable backing file.
/// 4. The backing file is held until the kernel forgets the inode, or until no handle is open and
///    ``NodeReach/mayLoseBacking(isOutdated:)`` is true.
struct NodeDataUse {
    private enum Use {
        case closed
        /// `mappers` is the number of handles by which a program may change the file with a shared mapping, without a request.
        case open(count: Int32, mappers: Int32, route: DataRoute)
    }

    private struct Backing {
        let id: BackingID
        /// Whether the backing file was opened as another user than the file's present owner: as the daemon, or before a chown.
        var isOutdated: Bool
    }

    private var use = Use.closed
    /// Whether the kernel may move the file's data; nil until this was checked.
    var mayBypass: Bool?
    /// How often the owner of the file was changed through the mount.
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
    /// The backing file for the next open. If it is outdated, it is used only while the file has another open handle.
    var usableBacking: BackingID? { backing.flatMap { $0.isOutdated && opens == 0 ? nil : $0.id } }
    /// Whether the next open can use passthrough with the present backing file.
    var isKnownPassthrough: Bool { mayBypass == true && backing?.isOutdated == false }

    /// Counts a handle that uses the same route as the handles that are already open. Returns nil if the file is not open.
    mutating func enterInUse(mapping: Bool) -> DataRoute? {
        guard let route else { return nil }
        return enter(by: route, mapping: mapping)
    }

    /// Counts a handle with the route `wanted`. If another thread has chosen a route meanwhile, the handle gets that route.
    /// Returns nil if the backing file of the route is not usable any more.
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

    /// Subtracts a handle. Returns whether it was the last open handle by which a program could map the file.
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

    /// Offers a new backing file for the node, and returns the backing file to be used. The offered file was opened when the
    /// owner had been changed `ownerChanges` times. `needless` is a backing file that the caller must close, or nil.
    mutating func offer(
        _ opened: BackingID, ownerChanges: UInt32
    ) -> (kept: BackingID, needless: BackingID?) {
        if let usableBacking { return (usableBacking, opened) }
        defer { backing = Backing(id: opened, isOutdated: self.ownerChanges != ownerChanges) }
        return (opened, backing?.id)
    }

    /// Stores a backing file that the daemon has opened as itself, unless the node already has one. Returns the backing file
    /// that the caller must close, or nil.
    mutating func retain(_ opened: BackingID) -> BackingID? {
        guard backing == nil else { return opened }
        backing = Backing(id: opened, isOutdated: true)
        return nil
    }

    mutating func noteOwnerChange() {
        ownerChanges &+= 1
        backing?.isOutdated = true
    }

    /// Takes out the backing file, which the caller then closes. Returns nil if an open uses the backing file, or if the file
    /// exists only because the kernel holds it.
    mutating func takeUnusedBacking(of reach: NodeReach) -> BackingID? {
        guard opens == 0, let known = backing, reach.mayLoseBacking(isOutdated: known.isOutdated) else {
            return nil
        }
        backing = nil
        return known.id
    }
}
