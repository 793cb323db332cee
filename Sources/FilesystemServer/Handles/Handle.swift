// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// An open file of an unmodified program, from its OPEN or CREATE to its RELEASE.
///
///     opening ──enters the table──▶ open ──RELEASE, a mapping lives──▶ lingeringMapping
///        │                           │ RELEASE                            │ no program can store any more
///        │ the open failed           ▼                                    │
///        ╰───────────────────────▶ closed ◀───────────────────────────────╯
///
/// | transition | function |
/// |---|---|
/// | opening → open | ``enterTable()``, by ``HandleTable/insert(_:)`` |
/// | open → lingeringMapping | ``beginLingering()`` |
/// | any → closed | ``closeFile(forGood:)`` |
/// | claims | ``renewClaim(as:)``, ``claimLate(_:)``, ``giveUpLateClaim()``, ``becomeBystander()`` |
///
/// 1. The phase never goes back. A closed handle stores no descriptor: the budget would never close it.
/// 2. What the opener asked for is fixed when the handle enters the table: the constants, the opening facts, and the route
///    of the data.
/// 3. The parts of the state keep invariants of their own: ``HandleCoordination``, ``HandleData``, ``HandleWriting``,
///    ``HandlePreservation``.
///
/// **Lock rule.** The mutex covers the state. Under it, no system call is made, no other mutex is taken, and nothing that
/// may close a file is released.
final class Handle: Claimant {
    private enum Phase: Comparable {
        /// Its open is not answered yet.
        case opening
        /// Its program has it open.
        case open
        /// Its program has closed it, but may store to a mapping (D131).
        case lingeringMapping
        case closed
    }

    /// Facts of the open. They are set before the handle enters the table.
    private struct OpeningFacts {
        /// It was opened for writing, and its file only allows appending.
        var isAppendOnly = false
        /// The file took the name of a document that had no file: others see another file, whatever is written.
        var fillsName = false
    }

    /// Noted on contention, because the program may have ended when it is reported.
    private struct Identity {
        var program: [UInt8]?
        /// Known with a process only; then it never changes.
        var party: Party?
    }

    private struct State {
        var phase = Phase.opening
        var coordination: HandleCoordination
        var facts = OpeningFacts()
        var data = HandleData()
        var writing = HandleWriting()
        var preservation = HandlePreservation()
        var lockUse = LockUse.none
        var identity = Identity()
    }

    /// A real descriptor, open until the last request that uses it has ended.
    final class SharedFile: Sendable {
        let file: OwnedDescriptor
        private let budget: DescriptorBudget

        init(_ file: consuming OwnedDescriptor, of budget: DescriptorBudget) {
            self.file = file
            self.budget = budget
            budget.opened()
        }

        deinit { budget.closed() }
    }

    let claim: ClaimID
    let node: Node
    /// The document of the claim. It may no longer be the node's document when the claim is granted.
    let item: ItemID
    let flags: Int32
    let thread: Int32
    /// The user of the request that opened it.
    let user: UInt32
    private let group: UInt32
    /// The process of the thread, which may outlive the thread; 0 if it was not determined.
    let process: Int32
    let opened: Instant
    /// Whether it was opened with a claim, which only documents need.
    let isClaimed: Bool
    /// Its program was told the attributes of the file without unsaved changes, and reads the file that way (D169).
    let readsAsSaved: Bool
    /// The kernel has looked up the name for the second time, and will not do so again.
    let isRetry: Bool
    /// Whether it was opened to write to a database or a log, which needs no claims. Its writes are still lost when another
    /// program removes the file, whatever the name is by then. False for the journals that SQLite itself removes.
    private let writesToShared: Bool
    unowned let processes: ProcessResolver
    private let state: Mutex<State>
    /// The kernel drops the contents it had of the file, and has not read it since.
    let awaitsFirstRead = Atomic(false)
    /// The number of READs of the file before this handle was opened, when the kernel drops its cache (``DataOrder``).
    let readsBefore = Atomic<UInt64>(0)

    init(
        _ claim: ClaimID, on node: Node, _ item: ItemID, flags: Int32, by caller: Caller, isClaimed: Bool,
        readsAsSaved: Bool = false, isRetry: Bool = false, processes: ProcessResolver
    ) {
        self.claim = claim
        self.node = node
        self.item = item
        self.flags = flags
        (thread, user, group) = (caller.thread, caller.user, caller.group)
        self.isClaimed = isClaimed
        self.readsAsSaved = readsAsSaved
        self.isRetry = isRetry
        self.processes = processes
        writesToShared = !isClaimed && flags & O_ACCMODE != O_RDONLY && node.isDatabaseOrLog
        process =
            isClaimed || flags & O_ACCMODE != O_RDONLY
            ? processes.process(ofOpener: caller.thread, ofDocument: isClaimed) : 0
        opened = Engine.now
        state = Mutex(State(coordination: isClaimed ? .claimed : .uncoordinated))
    }

    /// The caller that opened it.
    var caller: Caller { Caller(user: user, group: group, thread: thread, umask: 0) }
    var opener: UInt32? { user }

    func userMayWrite() -> Bool {
        do throws(Errno) {
            let rights = try FileRights(of: node.descriptor().descriptor)
            // A thread that has ended has no supplementary groups, and cannot write any more.
            let groups = [group] + processes.supplementaryGroups(ofThread: thread)
            return rights.user == user || rights.mayWrite(Credentials(user: user, groups: groups))
        } catch {
            return false
        }
    }

    var id: HandleID { HandleID(claim.rawValue) }
    /// Whether the arbiter knows of it.
    var hasClaim: Bool { isClaimed || state.withLock { $0.coordination.hasClaim } }
    /// Whether the baseline shows the contents when the handle could first write to the file as a document.
    var isMeasured: Bool {
        isClaimed || state.withLock { $0.coordination.hasClaim || $0.coordination.isBystander }
    }
    /// Whether it may write but others do not wait for it, so that preemption by others is not reported.
    var writesUncoordinated: Bool {
        !isClaimed
            && state.withLock { state in
                state.coordination.isBystander || writesToShared && !state.coordination.hasClaim
            }
    }
    /// The claim in force, if it has one.
    var currentClaim: ClaimID { state.withLock { $0.coordination.laterClaim } ?? claim }
    var mayWrite: Bool { flags & O_ACCMODE != O_RDONLY }
    var truncates: Bool { flags & O_TRUNC != 0 }
    /// Whether it was opened only to append.
    var onlyAppends: Bool { flags & (O_ACCMODE | O_APPEND | O_TRUNC) == O_WRONLY | O_APPEND }

    /// Whether its file is no longer the document, or has no name any more.
    var isReplaced: Bool {
        let (now, hasName) = node.document
        return now != item || !hasName
    }

    /// A handle without a claim has the access that it would have on a document.
    var access: Access {
        if readsAsSaved { return .read(.withoutChanges) }
        return AccessTable.opening(flags, of: .document) ?? .read()
    }
    var intents: [Intent] { [Intent(access) { [node] in node.path }] }

    var attribution: Attribution {
        let (process, program) = state.withLock { state in
            (state.identity.party?.process?.number, state.identity.program)
        }
        return Attribution(thread: thread, at: opened, process: process, program: program) { [node] in
            node.path
        }
    }

    func identify() -> Party {
        if let known = state.withLock({ $0.identity.party }) { return known }
        var party = processes.party(ofThread: thread, notAfter: opened)
        if party.process == nil { party = processes.party(ofThread: process, notAfter: opened) }
        let program =
            party.process?.number == thread ? party.program : ProcessInspection.program(ofThread: thread)
        state.withLock { state in
            // A thread without a name of its own needs no second copy of the name.
            state.identity.program =
                program == party.program ? party.program : program ?? state.identity.program
            // A known party is stored, since the thread may have ended later. An unknown one may be identified later.
            if party.process != nil { state.identity.party = party }
        }
        return party
    }

    /// Whether the file may have changed since the handle could write to it.
    var mayHaveWritten: Bool {
        let (baseline, hasWritten, _) = writing
        do throws(Errno) {
            if hasWritten || hasUnseenStores { return true }
            let stamp = Stamp(try node.descriptor().descriptor.status())
            guard let baseline else { return true }
            return baseline.isRacy || !baseline.stamp.hasSameContents(as: stamp)
        } catch {
            return true
        }
    }

    /// Notes a change of the file's modification time, which may restore the value of the baseline.
    func noteTimeChange(_ time: FileStatus.Time) {
        if baseline?.stamp.modified == time, mayHaveWritten { markWritten() }
    }
}

// The life of the handle, and the facts about its open.
extension Handle {
    /// Notes that the handle has entered the table. Returns what the table needs to know of its data.
    func enterTable() -> (movesData: Bool, hasDescriptor: Bool) {
        state.withLock { state in
            state.phase = max(state.phase, .open)
            return (state.data.isMovedHere, state.data.descriptor != nil)
        }
    }

    /// Its program has closed it, but may store to a mapping.
    func beginLingering() { state.withLock { $0.phase = max($0.phase, .lingeringMapping) } }

    /// Whether it has left the table, or never entered it and will not.
    var isClosed: Bool { state.withLock { $0.phase == .closed } }

    /// Releases its descriptor. A thread that is using the file holds it open until it is done.
    func closeFile(forGood: Bool = false) {
        let file = state.withLock { state in
            if forGood { state.phase = .closed }
            return state.data.takeDescriptor()
        }
        withExtendedLifetime(file) {}
    }

    var isAppendOnly: Bool { state.withLock { $0.facts.isAppendOnly } }
    func setAppendOnly(_ isAppendOnly: Bool) { state.withLock { $0.facts.isAppendOnly = isAppendOnly } }

    var fillsName: Bool { state.withLock { $0.facts.fillsName } }
    func noteFilledName() { state.withLock { $0.facts.fillsName = true } }
}

// Its claim, see ``HandleCoordination``.
extension Handle {
    /// Whether a later claim is in force, or the first one was renewed.
    var isReclaimed: Bool { state.withLock { $0.coordination.isReclaimed } }
    func renewClaim(as claim: ClaimID) { state.withLock { $0.coordination.renew(as: claim) } }
    func claimLate(_ claim: ClaimID) -> Bool { state.withLock { $0.coordination.claimLate(claim) } }
    func giveUpLateClaim() -> ClaimID? { state.withLock { $0.coordination.giveUpLateClaim() } }
    func becomeBystander() -> Bool { state.withLock { $0.coordination.becomeBystander() } }
}

// Its data, see ``HandleData``.
extension Handle {
    /// Whether this process moves the data.
    var movesData: Bool { state.withLock { $0.data.isMovedHere } }
    /// The open file, if this process has it open.
    var file: SharedFile? { state.withLock { $0.data.descriptor } }
    func moveData(through file: SharedFile) { state.withLock { $0.data.moveHere(through: file) } }

    /// Stores a descriptor that was opened again. Returns the one to be used: another thread may have been faster, and a
    /// closed handle stores none.
    func keep(_ file: SharedFile) -> SharedFile {
        state.withLock { state in
            state.phase == .closed ? state.data.descriptor ?? file : state.data.keep(file)
        }
    }

    /// Whether a mapping made through the handle may outlive it (D131).
    var mayOutlive: Bool { state.withLock { $0.data.mayOutlive } }
    func noteMapping(mayOutlive: Bool) { state.withLock { $0.data.noteMapping(mayOutlive: mayOutlive) } }

    /// Whether the kernel caches the contents that it reads through this handle.
    var fillsPageCache: Bool { state.withLock { $0.data.fillsPageCache } }
    func noteCaching(fillsPageCache: Bool) {
        state.withLock { $0.data.noteCaching(fillsPageCache: fillsPageCache) }
    }

    func owe(_ error: Errno) { state.withLock { $0.data.owe(error) } }
    func oweFlush(_ error: Errno) { state.withLock { $0.data.oweFlush(error) } }
    func takeOwedError() -> Errno? { state.withLock { $0.data.takeOwedError() } }
}

// Its changes, see ``HandleWriting``.
extension Handle {
    var baseline: Baseline? { state.withLock { $0.writing.baseline } }
    func setBaseline(_ baseline: Baseline) { state.withLock { $0.writing.baseline = baseline } }

    /// What an observation of its changes needs, read at once.
    var writing: (baseline: Baseline?, hasWritten: Bool, isReclaimed: Bool) {
        state.withLock { ($0.writing.baseline, $0.writing.hasWritten, $0.coordination.isReclaimed) }
    }

    var hasWritten: Bool { state.withLock { $0.writing.hasWritten } }
    func markWritten() { state.withLock { $0.writing.markWritten() } }
    func forgetWrites() { state.withLock { $0.writing.forgetWrites() } }
    func noteWriteRequest() { state.withLock { $0.writing.noteRequest() } }
    func noteOverwrite() -> Bool { state.withLock { $0.writing.noteOverwrite() } }
    /// Notes that a name of the file was changed.
    func noteNameChange(_ stamp: Stamp) { state.withLock { $0.writing.noteNameChange(stamp) } }

    var observedPosition: ObservedPosition? { state.withLock { $0.writing.observedPosition } }
    @discardableResult
    func noteObservedPosition(at position: Int64) -> Instant {
        let now = Engine.now
        return state.withLock { $0.writing.noteObserved(at: position, now: now) }
    }

    var hasProvisionalCopy: Bool { state.withLock { $0.writing.provisionalCopy != nil } }
    func takeProvisionalCopy() -> ProvisionalCopy? { state.withLock { $0.writing.provisionalCopy.take() } }
    /// Returns the former copy, so that it is released after the lock.
    func replaceProvisionalCopy(with copy: ProvisionalCopy) -> ProvisionalCopy? {
        state.withLock { state in
            defer { state.writing.provisionalCopy = copy }
            return state.writing.provisionalCopy.take()
        }
    }
}

// Its preservation, see ``HandlePreservation``.
extension Handle {
    var writesToOrphan: Bool { state.withLock { $0.preservation.writesToOrphan } }
    func becomeOrphanWriter() { state.withLock { $0.preservation.becomeOrphanWriter() } }

    var linkedVersions: [LinkedVersion] { state.withLock { $0.preservation.linkedVersions } }
    func add(_ version: LinkedVersion) { state.withLock { $0.preservation.add(version) } }
    func takeLinkedVersions() -> [LinkedVersion] { state.withLock { $0.preservation.takeLinkedVersions() } }

    /// Whether its close has to release a link, or to preserve what it wrote to a file without a name.
    var hasPreservedFile: Bool {
        state.withLock { !$0.preservation.linkedVersions.isEmpty || $0.preservation.writesToOrphan }
    }

    /// Whether all contents that it left were preserved at close(2). Later contents are not this writer's.
    var isPreservedAtClose: Bool { state.withLock { $0.preservation.closes.isComplete } }
    var versionAtClose: VersionID? { state.withLock { $0.preservation.closes.version } }
    func noteVersionAtClose(_ id: VersionID) { state.withLock { $0.preservation.closes.noteVersion(id) } }

    func recordClose(_ stamp: Stamp, isSure: Bool, hasWritten: Bool) -> Bool {
        state.withLock { state in
            state.preservation.closes.recordClose(stamp, isSure: isSure, hasWritten: hasWritten)
        }
    }

    func beginPreservationAtClose(orElse again: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { $0.preservation.closes.begin(orElse: again) }
    }

    func endPreservationAtClose() -> [@Sendable () -> Void] {
        state.withLock { $0.preservation.closes.end() }
    }
}

// The locks of its program, see ``LockUse``.
extension Handle {
    /// Whether its program locks the file, or is expected to.
    var locksFile: Bool { state.withLock { $0.lockUse != .none } }
    var isObservedLocker: Bool { state.withLock { $0.lockUse == .observed } }
    /// Returns whether its program was not expected to lock the file before.
    @discardableResult
    func expectLock() -> Bool { state.withLock { $0.lockUse.rise(to: .expected) } }
    func noteObservedLock() -> Bool { state.withLock { $0.lockUse.rise(to: .observed) } }
}
