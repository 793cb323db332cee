// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// Calls the function that serves a request, for each kind of request.
extension ClientConnection {
    func start(_ id: MessageID, _ request: ControlProtocol.ClientRequest) {
        switch request {
        case .initialize(let parameters): initialize(parameters, answering: id)
        case .status:
            runQuery(id, reserving: ProtocolLimits.listBytes) { services, peer in
                try services.checkMaySeeWholeMount(peer)
                return try .status(
                    StatusForm(services.status.status(), mount: services.mount, pid: OwnProcess.id))
            }
        case .register(let parameters): presenters.register(parameters, answering: id)
        case .remove(let parameters): presenters.remove(parameters.presenter, answering: id)
        case .beginAccess(let parameters): accesses.begin(parameters, .aware, answering: id)
        case .prepareAccess(let parameters): accesses.begin(parameters, .batch, answering: id)
        case .endAccess(let parameters): accesses.end(parameters.access, answering: id)
        case .willMove(let parameters): accesses.move(parameters, isDone: false, answering: id)
        case .didMove(let parameters): accesses.move(parameters, isDone: true, answering: id)
        case .subscribe(let parameters): events.subscribe(parameters, answering: id)
        case .unsubscribe(let parameters): events.unsubscribe(parameters.subscription, answering: id)
        case .why(let parameters):
            runQuery(id, reserving: ProtocolLimits.listBytes) { services, peer in
                let guest = services.guest(peer)
                _ = try guest?.checkedToLook(at: parameters.path)
                return try services.snapshot(at: parameters.path, isForGuest: guest != nil)
            }
        case .ps:
            runQuery(id, reserving: ProtocolLimits.listBytes) { services, peer in
                try services.checkMaySeeWholeMount(peer)
                return .snapshot(try CoordinationSnapshotForm(of: nil, in: services.engine))
            }
        case .showSettings(let parameters):
            runQuery(id, reserving: ProtocolLimits.listBytes) { services, peer in
                let guest = services.guest(peer)
                _ = try guest?.checkedToLook(at: parameters.path)
                return try services.settings(at: parameters.path, isForGuest: guest != nil)
            }
        case .generation(let parameters):
            runQuery(id, reserving: 0) { services, peer in
                _ = try services.guest(peer)?.checkedToLook(at: parameters.path)
                return .generation(try services.generation(at: parameters.path))
            }
        case .listVersions(let parameters):
            runQuery(id, reserving: ProtocolLimits.listBytes) { try $0.store().list(parameters, for: $1) }
        case .readVersion(let parameters):
            // The reply contains the bytes as base64, which is a third longer.
            runQuery(id, reserving: parameters.length / 3 * 4) { try $0.store().read(parameters, for: $1) }
        case .preserveVersion(let parameters): accesses.preserve(parameters, answering: id)
        case .beginRun(let parameters): runs.begin(parameters, answering: id)
        case .endRun(let parameters): runs.end(parameters.run, answering: id)
        case .resolveVersions(let parameters):
            runQuery(id, reserving: 0) { try $0.store().resolve(parameters, for: $1) }
        case .removeVersions(let parameters):
            runQuery(id, reserving: 0) { try $0.store().remove(parameters, for: $1) }
        case .pruneVersions(let parameters):
            runQuery(id, reserving: 0) { try $0.store().prune(parameters, for: $1) }
        case .listHistory(let parameters):
            runQuery(id, reserving: ProtocolLimits.listBytes) { try $0.listHistory(parameters, for: $1) }
        case .watchHistory(let parameters): history.watch(parameters, answering: id)
        }
    }
}

extension ClientConnection {
    /// Preserves the contents of a file, for a client that holds an access that writes the file.
    func preserve(_ parameters: PreserveParameters, answering id: MessageID) {
        runQuery(id, reserving: 0) { services, peer in
            let store = try services.store()
            _ = try services.guest(peer)?.checked(.write(.forMerging), at: parameters.path)
            if let contents = parameters.contents {
                _ = try services.guest(peer)?.checked(.read(), at: contents)
            }
            return try store.preserve(parameters, for: peer)
        }
    }
}

extension SharedServices {
    /// Throws if the client is a guest. The state of the whole mount contains names of files that a guest may not see.
    fileprivate func checkMaySeeWholeMount(_ peer: Peer) throws(ProtocolFailure) {
        guard guest(peer) != nil else { return }
        throw .denied("only user \(mount.user) and root may ask about the whole mount; ask 'why' of one file")
    }

    fileprivate func store() throws(ProtocolFailure) -> any PreservedVersions {
        guard let preservedVersions else { throw .notFound("this mount preserves no versions") }
        return preservedVersions
    }

    /// Returns the settings of a file. A reply to a guest contains no paths of configuration files.
    fileprivate func settings(at path: PathForm, isForGuest: Bool) throws -> Response {
        guard let settings else { throw ProtocolFailure.notFound("this mount has no configuration files") }
        // The path has bytes, because it was checked when the message was decoded.
        var result = settings.settings(forFileAt: path.bytes ?? [])
        for index in result.settings.indices where isForGuest {
            (result.settings[index].file, result.settings[index].line) = (nil, nil)
        }
        var budget = ReplyBudget()
        let entries = try budget.fill(with: result.settings)
        return .showSettings(
            SettingsResult(settings: entries, isTruncated: entries.count < result.settings.count))
    }

    /// Returns the claims and presenters of an item. These claims can concern other items, too. A guest possibly has no
    /// right to see the other items, so a reply to a guest does not contain them.
    fileprivate func snapshot(at path: PathForm, isForGuest: Bool) throws -> Response {
        let document = try documents.find(path)
        defer { document.release() }
        var snapshot = try CoordinationSnapshotForm(of: document.item, in: engine)
        if isForGuest {
            snapshot.delays = nil
            // The item can have other names that the guest may not see. So the reply contains the path that the guest has sent.
            for index in snapshot.presenters.indices {
                (snapshot.presenters[index].path, snapshot.presenters[index].pathBytes) = (
                    path.path, path.pathBytes
                )
            }
            for index in snapshot.claims.indices {
                snapshot.claims[index].others = nil
                snapshot.claims[index].reasons = []
                snapshot.claims[index].exceeded = nil
                (snapshot.claims[index].path, snapshot.claims[index].pathBytes) = (path.path, path.pathBytes)
            }
        }
        return .snapshot(snapshot)
    }
}

extension PreservedVersions {
    fileprivate func list(_ parameters: VersionListParameters, for peer: Peer) throws -> Response {
        // The path has bytes, because it was checked when the message was decoded.
        let page = try entries(
            VersionQuery(
                path: parameters.path.bytes ?? [], before: parameters.before, since: parameters.since,
                by: parameters.by), for: peer)
        var budget = ReplyBudget()
        let entries = try budget.fill(withVersions: page.entries)
        let isTruncated = page.hasMore || entries.count < page.entries.count
        return .listVersions(VersionListResult(entries: entries, isTruncated: isTruncated))
    }

    fileprivate func resolve(_ parameters: VersionSelectionParameters, for peer: Peer) throws -> Response {
        let count = try resolve(parameters.ids, of: parameters.path.bytes ?? [], for: peer)
        return .changeVersions(VersionChangeResult(count: count))
    }

    fileprivate func remove(_ parameters: VersionSelectionParameters, for peer: Peer) throws -> Response {
        let count = try remove(parameters.ids ?? [], of: parameters.path.bytes ?? [], for: peer)
        return .changeVersions(VersionChangeResult(count: count))
    }

    fileprivate func prune(_ parameters: VersionPruneParameters, for peer: Peer) throws -> Response {
        let count = try prune(parameters.path.bytes ?? [], until: parameters.until, for: peer)
        return .changeVersions(VersionChangeResult(count: count))
    }

    fileprivate func read(_ parameters: VersionReadParameters, for peer: Peer) throws -> Response {
        let bytes = try read(
            parameters.id, of: parameters.path?.bytes, at: parameters.offset, count: parameters.length,
            for: peer)
        return .readVersion(VersionReadResult(content: bytes, isAtEnd: bytes.count < parameters.length))
    }

    fileprivate func preserve(_ parameters: PreserveParameters, for peer: Peer) throws -> Response {
        // The path has bytes, because it was checked when the message was decoded.
        .preserveVersion(
            PreserveResult(
                id: try preserve(parameters.path.bytes ?? [], contents: parameters.contents?.bytes, for: peer)
            ))
    }
}
