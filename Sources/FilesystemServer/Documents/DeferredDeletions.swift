// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Files below presented directories that programs removed a moment ago, before their presenters were asked.
///
/// Many programs remove the backup of the last save before they make the next one. So presenters are asked about a
/// removal after the name has been free for a moment. If the name has a file again by then, that is a change of this
/// file.
///
/// **Lock rule.** The mutex covers the table alone, and may be taken under the engine's lock.
final class DeferredDeletions: Sendable {
    struct DeferredDeletion: Sendable {
        let item: ItemID
        let place: Place
        let party: Party
        /// Tells it from a later removal of the same name.
        fileprivate(set) var serial: UInt64 = 0

        init(of item: ItemID, at place: Place, by party: Party) {
            (self.item, self.place, self.party) = (item, place, party)
        }
    }

    private struct State {
        var removals: [NodeID: [NameBytes: DeferredDeletion]] = [:]
        var lastSerial: UInt64 = 0
        /// The former places of removals that were submitted to presenters, in two parts; the older part is forgotten
        /// first.
        var recent: [ItemID: Place] = [:]
        var older: [ItemID: Place] = [:]
    }

    /// A presenter gets one question after another. Before its turn, a program may have removed many more files.
    private static let remembered = 4096

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }

    /// Remembers a removal, and returns its number.
    func add(_ removal: DeferredDeletion, of change: NameChange) -> UInt64 {
        state.withLock { state in
            state.lastSerial += 1
            var removal = removal
            removal.serial = state.lastSerial
            let former = state.removals[change.directory.id, default: [:]].updateValue(
                removal, forKey: change.name)
            if former == nil { count.add(1, ordering: .sequentiallyConsistent) }
            return removal.serial
        }
    }

    /// Forgets a removal, or that with the given number. Nil if there is none.
    func take(_ name: NameBytes, in directory: NodeID, _ serial: UInt64? = nil) -> DeferredDeletion? {
        if isEmpty { return nil }
        return state.withLock { state in
            guard let known = state.removals[directory]?[name], serial == nil || known.serial == serial else {
                return nil
            }
            state.removals[directory]?[name] = nil
            if state.removals[directory]?.isEmpty == true { state.removals[directory] = nil }
            count.subtract(1, ordering: .sequentiallyConsistent)
            return known
        }
    }

    /// Takes a removal to submit it to presenters now, and remembers its place for a while.
    func takeToSubmit(_ name: NameBytes, in directory: NodeID, _ serial: UInt64) -> Bool {
        guard let removal = take(name, in: directory, serial) else { return false }
        state.withLock { state in
            if state.recent.count >= Self.remembered { (state.older, state.recent) = (state.recent, [:]) }
            state.recent[removal.item] = removal.place
        }
        return true
    }

    /// The former place of a file, after its removal was submitted to presenters.
    func place(of item: ItemID) -> Place? {
        state.withLock { $0.recent[item] ?? $0.older[item] }
    }

    /// The removals of a directory, in their order.
    func removals(in directory: NodeID) -> [(name: NameBytes, removal: DeferredDeletion)] {
        if isEmpty { return [] }
        let known = state.withLock { $0.removals[directory] ?? [:] }
        return known.map { ($0.key, $0.value) }.sorted { $0.1.serial < $1.1.serial }
    }
}

extension DocumentEvents {
    /// When presenters of directories above are asked about a removal.
    ///
    /// They are asked afterwards if the program may put another file under the name:
    /// - The program is not known to remove files, and does not leave several names empty.
    /// - The file is in no package and no presenter presents it, so that those presenters know only its name.
    /// - The program holds no access to the file, by which it would have announced the removal.
    func consultation(
        aboutRemoving node: Node, _ status: FileStatus, _ change: NameChange, by program: [UInt8]
    ) -> SaveAssessment.ConsultationTime {
        let (directory, thread) = (change.directory, change.caller.thread)
        guard engine.hasAwareClients, status.linkCount == 1, node.itemClass == .document, !change.isPrivate,
            engine.hasInterestedPresenter(of: node.item, at: places.place(in: directory)),
            engine.bounds.policy != .fail,
            !processes.programs.removesFiles(program),
            !documents.isTracked(node.item), !engine.isPresented(node.item), !places.isInPackage(directory)
        else { return .before }
        let number = NodeNumber(directory.id.rawValue)
        let isOneOfMany = saves.areManyDepartures(by: thread, from: number, at: Engine.now)
        let place = places.place(change.name, in: directory)
        let party = processes.currentParty(ofThread: thread)
        guard !isOneOfMany, engine.mustAskPresentersAbove(aboutDeletionOf: node.item, at: place, by: party),
            !engine.awaitsReplacement(node.item), !engine.isWithinAccess(party, of: node.item, at: place)
        else { return .before }
        return .afterwards
    }

    /// Defers the question about a removed file. Its number may belong to another file by then, so the removal gets a
    /// new number: presenters of directories know the file by its name.
    func deferDeletion(of change: NameChange) {
        let removal = DeferredDeletions.DeferredDeletion(
            of: context.makeItem(), at: places.place(change.name, in: change.directory),
            by: processes.currentParty(ofThread: change.caller.thread))
        publishDeferredDeletion(at: change)
        let serial = deferredDeletions.add(removal, of: change)
        engine.timers.schedule(at: (Engine.now + SaveLimits.stepWait).nanoseconds) { [self] in
            submit(removal, of: change.name, in: change.directory.id, serial)
        }
    }

    /// Reports the deferred removal of a name that has a file again, before the new file is reported.
    func publishDeferredDeletion(at change: NameChange) {
        guard let removal = deferredDeletions.take(change.name, in: change.directory.id) else { return }
        engine.noteDeletion(of: removal.item, at: removal.place, by: removal.party)
    }

    /// Asks presenters about the removals in a directory that is about to be removed.
    func submitDeferredDeletions(in parent: Node, _ name: borrowing FileName) {
        guard !deferredDeletions.isEmpty else { return }
        do throws(Errno) {
            guard let directory = nodes[FileKey(try parent.descriptor().descriptor.status(of: name))] else {
                return
            }
            submitDeferredDeletions(in: directory)
        } catch {
            // In this case the directory is not removed.
            return
        }
    }

    func submitDeferredDeletions(in directory: Node) {
        for (name, removal) in deferredDeletions.removals(in: directory.id) {
            submit(removal, of: name, in: directory.id, removal.serial)
        }
    }

    /// Submits a removal to presenters, if its name is still free.
    private func submit(
        _ removal: DeferredDeletions.DeferredDeletion, of name: NameBytes, in directory: NodeID,
        _ serial: UInt64
    ) {
        engine.noteLoss(of: removal.item, at: removal.place, by: removal.party) {
            deferredDeletions.takeToSubmit(name, in: directory, serial)
        }
    }
}
