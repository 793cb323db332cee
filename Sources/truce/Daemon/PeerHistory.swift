// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import History
import LinuxSystem
import VersionStore

/// The events of the history that a client of the control socket may see.
final class PeerHistory: DocumentHistory {
    private let log: HistoryLog
    private let rights: PeerVersionStore

    init(_ log: HistoryLog, rights: PeerVersionStore) {
        self.log = log
        self.rights = rights
    }

    var last: UInt64 { log.last }
    func watch(_ call: @escaping @Sendable () -> Void) -> UInt64 { log.watch(call) }
    func unwatch(_ watcher: UInt64) { log.unwatch(watcher) }

    func events(
        _ parameters: HistoryListParameters, for peer: Peer
    ) throws(VersionAccessFailure) -> [HistoryEventForm] {
        if parameters.before == nil { log.bringUpToDate() }
        let limit = parameters.limit ?? ProtocolLimits.listEntries
        return try events(
            HistoryQuery(
                path: parameters.path.bytes ?? [], before: parameters.before,
                since: parameters.since.map { Int64($0 * 1e9) }, by: parameters.by.map { Array($0.utf8) },
                atMost: limit + 1), peer)
    }

    func events(
        after number: UInt64, under path: [UInt8], for peer: Peer
    ) throws(VersionAccessFailure) -> [HistoryEventForm] {
        // One more than fits into a reply, so that the caller sees whether there are more.
        try events(
            HistoryQuery(
                path: path, after: number, atMost: ProtocolLimits.listEntries + 1, takesOldest: true),
            peer)
    }

    private func events(
        _ query: HistoryQuery, _ peer: Peer
    ) throws(VersionAccessFailure) -> [HistoryEventForm] {
        // Many events have the same path, so the present rights to each path are asked only once for a query.
        var known: [[UInt8]: PresentRights] = [:]
        do throws(Errno) {
            return try log.events(query) { event in
                isVisible(event, peer, &known)
            }.map { event in HistoryEventForm(event, showsSource: mayReachSource(of: event, peer)) }
        } catch {
            throw .system(error)
        }
    }

    private struct PresentRights {
        /// Nil if the document does not exist any more.
        let rights: FileRights?
        let isReachable: Bool
    }

    private func isVisible(
        _ event: HistoryEvent, _ peer: Peer, _ known: inout [[UInt8]: PresentRights]
    ) -> Bool {
        if peer.user == 0 || event.kind == .gap { return true }
        guard let then = event.rights else { return peer.user == OwnProcess.user }
        let reader = Credentials(peer)
        guard then.mayRead(reader), event.closed.allSatisfy({ $0.maySearch(reader) }) else { return false }
        let path = event.newPath ?? event.path
        guard let now = known[path] ?? presentRights(to: path, peer) else { return false }
        known[path] = now
        return now.isReachable && now.rights?.mayRead(reader) ?? true
    }

    /// Whether the client may enter the directories of the file that was renamed over the document, and could at the event.
    /// Otherwise the name of this file is a secret.
    private func mayReachSource(of event: HistoryEvent, _ peer: Peer) -> Bool {
        guard let source = event.source, peer.user != 0 else { return true }
        // The directories can be open or gone now, but the name was a secret when the event happened.
        let reader = Credentials(peer)
        guard event.sourceClosed.allSatisfy({ $0.maySearch(reader) }) else { return false }
        do throws(VersionAccessFailure) { return try rights.mayReach(source, peer) } catch { return false }
    }

    /// Returns nil if the rights cannot be found out.
    private func presentRights(to path: [UInt8], _ peer: Peer) -> PresentRights? {
        do throws(VersionAccessFailure) {
            return PresentRights(
                rights: try rights.currentRights(of: path), isReachable: try rights.mayReach(path, peer))
        } catch {
            return nil
        }
    }
}

extension HistoryEventForm {
    fileprivate init(_ event: HistoryEvent, showsSource: Bool) {
        self.init(
            number: event.number, time: Double(event.time) / 1e9, kind: event.kind.rawValue, path: event.path,
            newPath: event.newPath, source: showsSource ? event.source : nil,
            actor: HistoryActorForm(event.actor))
        author = event.author.map { HistoryActorForm($0) }
        (generation, version, detail) = (event.generation, event.version, event.detail)
    }
}

extension HistoryActorForm {
    fileprivate init(_ actor: HistoryActor) {
        self.init(
            program: String(decoding: actor.program, as: UTF8.self),
            pid: actor.process == 0 ? nil : actor.process, user: actor.user,
            run: actor.run.map { String(decoding: $0, as: UTF8.self) }, runPid: actor.runProcess,
            runID: actor.runIdentity)
    }
}
