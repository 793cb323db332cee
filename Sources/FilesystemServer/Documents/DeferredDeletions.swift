// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Removed files about which presenters of the directories above are not asked at the removal, but a moment later.
///
/// Many programs remove the backup of their last save before they make the next backup. So the presenters are asked only if the
/// name is still free a moment later. If a new file has the name by then, the presenters get no question, but an event for a
/// change of the file.
///
/// **Lock rule.** The mutex covers only the table. It may be taken while the engine's lock is held.
final class DeferredDeletions: Sendable {
    struct DeferredDeletion: Sendable {
        let item: ItemID
        let place: Place
        let party: Party
        /// Distinguishes this removal from a later removal of the same name.
        fileprivate(set) var serial: UInt64 = 0

        init(of item: ItemID, at place: Place, by party: Party) {
            (self.item, self.place, self.party) = (item, place, party)
        }
    }

    private struct State {
        var removals: [NodeID: [NameBytes: DeferredDeletion]] = [:]
        var lastSerial: UInt64 = 0
        /// The former places of removed files about which presenters were asked. When `recent` is full, its contents
        /// are moved to `older`, and the former contents of `older` are dropped.
        var recent: [ItemID: Place] = [:]
        var older: [ItemID: Place] = [:]
    }

    /// The most entries of `recent`. While a presenter answers one question after another, a program may remove many more
    /// files.
    private static let remembered = 4096

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }

    /// Adds a removal, and returns the number that distinguishes it from other removals of the same name.
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

    /// Takes the removal of a name out of the table. Returns nil if the name has no removal, or has none with the number
    /// `serial`.
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

    /// Takes a removal out of the table because presenters are asked about it now. Returns false if the table does not contain
    /// the removal any more. Otherwise remembers the file's former place for a while.
    func takeToSubmit(_ name: NameBytes, in directory: NodeID, _ serial: UInt64) -> Bool {
        guard let removal = take(name, in: directory, serial) else { return false }
        state.withLock { state in
            if state.recent.count >= Self.remembered { (state.older, state.recent) = (state.recent, [:]) }
            state.recent[removal.item] = removal.place
        }
        return true
    }

    /// The former place of a removed file about which presenters were asked; nil if it is unknown.
    func place(of item: ItemID) -> Place? {
        state.withLock { $0.recent[item] ?? $0.older[item] }
    }

    /// The removals in a directory, in the order in which they happened.
    func removals(in directory: NodeID) -> [(name: NameBytes, removal: DeferredDeletion)] {
        if isEmpty { return [] }
        let known = state.withLock { $0.removals[directory] ?? [:] }
        return known.map { ($0.key, $0.value) }.sorted { $0.1.serial < $1.1.serial }
    }
}

extension DocumentEvents {
    /// When the presenters of the directories above are asked whether they agree to the removal of a file.
    ///
    /// If the program may put another file under the name, they are asked after the removal. This is so if all of these
    /// conditions hold:
    /// - The program is not known as a program that only removes files, and is not removing one name after another.
    /// - The file is in no package, and no presenter presents the file itself. So the presenters know only the file's name.
    /// - The program holds no access to the file over the control socket. Within such an access, it would announce the removal.
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

    /// Postpones the question about a removed file. The question gets a new item number, because the file's number may belong
    /// to another file when the question is sent. The presenters know the file only by its name, so they do not need the file's
    /// number.
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

    /// Sends the events of a postponed removal because its name has a file again. The caller sends the events of the new file
    /// after this call.
    func publishDeferredDeletion(at change: NameChange) {
        guard let removal = deferredDeletions.take(change.name, in: change.directory.id) else { return }
        engine.noteDeletion(of: removal.item, at: removal.place, by: removal.party)
    }

    /// Asks presenters about the postponed removals in a directory, because the directory itself is about to be removed.
    func submitDeferredDeletions(in parent: Node, _ name: borrowing FileName) {
        guard !deferredDeletions.isEmpty else { return }
        do throws(Errno) {
            guard let directory = nodes[FileKey(try parent.descriptor().descriptor.status(of: name))] else {
                return
            }
            submitDeferredDeletions(in: directory)
        } catch {
            // If the status cannot be read, the removal of the directory will fail as well.
            return
        }
    }

    func submitDeferredDeletions(in directory: Node) {
        for (name, removal) in deferredDeletions.removals(in: directory.id) {
            submit(removal, of: name, in: directory.id, removal.serial)
        }
    }

    /// Asks presenters about a removal, if no new file has its name yet.
    private func submit(
        _ removal: DeferredDeletions.DeferredDeletion, of name: NameBytes, in directory: NodeID,
        _ serial: UInt64
    ) {
        engine.noteLoss(of: removal.item, at: removal.place, by: removal.party) {
            deferredDeletions.takeToSubmit(name, in: directory, serial)
        }
    }
}
