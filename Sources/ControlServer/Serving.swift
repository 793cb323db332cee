// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// What each request of a client comes to.
extension ClientConnection {
    func start(_ id: MessageID, _ request: ControlProtocol.Request) {
        switch request {
        case .initialize(let parameters): initialize(parameters, answering: id)
        case .status:
            look(id, reserving: ProtocolLimits.listBytes) { service, peer in
                try service.checkMayKnowAll(peer)
                return try .status(
                    StatusForm(service.status.status(), mount: service.mount, pid: OwnProcess.id))
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
            look(id, reserving: ProtocolLimits.listBytes) { service, peer in
                let guest = service.guest(peer)
                _ = try guest?.checkedToLook(at: parameters.path)
                return try service.census(at: parameters.path, isForGuest: guest != nil)
            }
        case .ps:
            look(id, reserving: ProtocolLimits.listBytes) { service, peer in
                try service.checkMayKnowAll(peer)
                return .census(try CensusForm(of: nil, in: service.engine))
            }
        case .keptList(let parameters):
            look(id, reserving: ProtocolLimits.listBytes) { try $0.store().list(parameters, for: $1) }
        case .keptRead(let parameters):
            // As base64.
            look(id, reserving: parameters.length / 3 * 4) { try $0.store().read(parameters, for: $1) }
        case .keptKeep(let parameters): accesses.keep(parameters, answering: id)
        }
    }
}

extension ClientConnection {
    /// Keeps what a file holds for a client that has an access to it.
    func keep(_ parameters: KeptKeepParameters, answering id: MessageID) {
        look(id, reserving: 0) { service, peer in
            let store = try service.store()
            _ = try service.guest(peer)?.checked(.write(.forMerging), at: parameters.path)
            return try store.keep(parameters, for: peer)
        }
    }
}

extension Service {
    /// What is told of the whole mount names files that not everybody may see.
    fileprivate func checkMayKnowAll(_ peer: Peer) throws(Failure) {
        guard guest(peer) != nil else { return }
        throw .denied("only user \(mount.user) and root may ask about the whole mount; ask 'why' of one file")
    }

    fileprivate func store() throws(Failure) -> any KeptContents {
        guard let kept else { throw .notFound("this mount keeps nothing") }
        return kept
    }

    /// A guest is not told what else is claimed: that names files it may not see.
    fileprivate func census(at path: PathForm, isForGuest: Bool) throws -> Response {
        let document = try documents.find(path)
        defer { document.release() }
        var census = try CensusForm(of: document.item, in: engine)
        if isForGuest {
            census.delays = nil
            // It may have other names.
            for index in census.presenters.indices {
                (census.presenters[index].path, census.presenters[index].pathBytes) = (
                    path.path, path.pathBytes
                )
            }
            for index in census.claims.indices {
                census.claims[index].others = nil
                census.claims[index].reasons = []
                census.claims[index].exceeded = nil
                (census.claims[index].path, census.claims[index].pathBytes) = (path.path, path.pathBytes)
            }
        }
        return .census(census)
    }
}

extension KeptContents {
    fileprivate func list(_ parameters: KeptListParameters, for peer: Peer) throws -> Response {
        // The path was checked when the message was decoded.
        let all = try entries(under: parameters.path.bytes ?? [], for: peer)
        var room = ListRoom()
        let entries = try room.fill(with: all.prefix(ProtocolLimits.listEntries))
        return .keptList(KeptListResult(entries: entries, isTruncated: entries.count < all.count))
    }

    fileprivate func read(_ parameters: KeptReadParameters, for peer: Peer) throws -> Response {
        let bytes = try read(
            parameters.id, of: parameters.path?.bytes, at: parameters.offset, count: parameters.length,
            for: peer)
        return .keptRead(KeptReadResult(content: bytes, isAtEnd: bytes.count < parameters.length))
    }

    fileprivate func keep(_ parameters: KeptKeepParameters, for peer: Peer) throws -> Response {
        // The path was checked when the message was decoded.
        .keptKeep(KeptKeepResult(id: try keep(parameters.path.bytes ?? [], for: peer)))
    }
}
