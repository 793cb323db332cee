// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// The daemon's record of one open of a file by a program, from OPEN or CREATE to RELEASE.
///
///     opening ──enters the table──▶ open ──RELEASE, a mapping lives──▶ lingeringMapping
///        │                           │ RELEASE                            │ no program can write to a mapping
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
/// 1. The phase never returns to an earlier one. A closed handle stores no descriptor, because the budget would never close it.
/// 2. When the handle enters the table, the facts about its open are fixed: the constants, the opening facts, and the data
///   route.
/// 3. The parts of the state have invariants of their own: ``HandleCoordination``, ``HandleData``, ``HandleWriting``,
///   ``HandlePreservation``.
///
/// **Lock rule.** The mutex covers the state. Under the mutex, no system call is made and no other mutex is taken. No object is
/// released under the mutex if its end may close a file.
final class Handle: Claimant {
    private enum Phase: Comparable {
        /// The open is not answered yet.
        case opening
        /// The program has the file open.
        case open
        /// The program has closed the file, but can still change it by a mapping (D131).
        case lingeringMapping
        case closed
    }

    /// Facts about the open. They are set before the handle enters the table.
    private struct OpeningFacts {
        /// Whether the handle was opened for writing, and the file can only be appended to.
        var isAppendOnly = false
        /// Whether the new file took the name of a document that had no file. If so, other programs find another file than
        /// before, even if the program writes nothing.
        var fillsName = false
    }

    /// The program of the handle. It is identified when another program has to wait for the handle. Later, when a report
    /// contains the program, the program may have ended.
    private struct Identity {
        var program: [UInt8]?
        /// The party of the handle; nil until its process was identified. After that it never changes.
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

    /// An open file that can be read or written. It is closed when the last request that uses it has ended.
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
    /// The document on which the handle makes its claim. While the claim waits, the file of the node may become another
    /// document.
    let item: ItemID
    let flags: Int32
    let thread: Int32
    /// The user of the request that opened the file.
    let user: UInt32
    private let group: UInt32
    /// The process of the thread; 0 if it was not determined. The process may exist longer than the thread.
    let process: Int32
    /// The program that may write by the handle, for the history; nil if the handle is only for reading.
    let author: Author?
    let opened: Instant
    /// Whether the handle was opened with a claim. Only documents need claims.
    let isClaimed: Bool
    /// Whether the program got the attributes of the saved file, without a presenter's unsaved changes. If so, the program also
    /// reads the saved contents (D169).
    let readsAsSaved: Bool
    /// Whether the kernel has looked up the name a second time, after ESTALE. The kernel does not look it up a third time.
    let isRetry: Bool
    /// Whether the handle was opened to write to a database or a log, which needs no claim. When another program removes the
    /// file, its contents are preserved, because they would be lost. False for companion files of databases, because SQLite
    /// itself removes them.
    private let writesToShared: Bool
    unowned let processes: ProcessResolver
    private let state: Mutex<State>
    /// Whether the daemon has told the kernel to drop its cache of the file, and the kernel has not read the file since then.
    let awaitsFirstRead = Atomic(false)
    let overwriteReview = Atomic(OverwriteReview.due)
    /// Whether the contents before the writes of this handle are preserved, as far as ``WriteHistory`` requires it.
    let isHistoryKept = Atomic(false)
    /// The number of the last READ of the file before this handle was opened. At the open, the kernel drops its cache of the
    /// file, so earlier READs have no effect (``DataOrder``).
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
        opened = Engine.now
        process =
            isClaimed || flags & O_ACCMODE != O_RDONLY
            ? processes.process(ofOpener: caller.thread, ofDocument: isClaimed, at: opened) : 0
        author =
            flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
            ? processes.author(ofThread: caller.thread, at: opened) : nil
        state = Mutex(State(coordination: isClaimed ? .claimed : .uncoordinated))
    }

    /// The user, group and thread that opened the file.
    var caller: Caller { Caller(user: user, group: group, thread: thread, umask: 0) }
    var opener: UInt32? { user }

    func userMayWrite() -> Bool {
        do throws(Errno) {
            let rights = try FileRights(of: node.descriptor().descriptor)
            // If the thread has ended, its supplementary groups are unknown. This does no harm, because it cannot write any
            // more.
            let groups = [group] + processes.supplementaryGroups(ofThread: thread)
            return rights.user == user || rights.mayWrite(Credentials(user: user, groups: groups))
        } catch {
            return false
        }
    }

    var id: HandleID { HandleID(claim.rawValue) }
    /// Whether the arbiter knows the handle, because it has a claim.
    var hasClaim: Bool { isClaimed || state.withLock { $0.coordination.hasClaim } }
    /// Whether the baseline is the state in which the file was when the handle could first write to the document.
    var isMeasured: Bool {
        isClaimed || state.withLock { $0.coordination.hasClaim || $0.coordination.isBystander }
    }
    /// Whether other programs do not wait for the handle, although it may write. When another program removes the file, the
    /// arbiter reports no preemption for such a handle.
    var writesUncoordinated: Bool {
        !isClaimed
            && state.withLock { state in
                state.coordination.isBystander || writesToShared && !state.coordination.hasClaim
            }
    }
    /// The handle's present claim, if it has one; otherwise a number that no claim has.
    var currentClaim: ClaimID { state.withLock { $0.coordination.laterClaim } ?? claim }
    var mayWrite: Bool { flags & O_ACCMODE != O_RDONLY }
    var truncates: Bool { flags & O_TRUNC != 0 }
    /// Whether the request that opened the handle has made the file.
    var isNew: Bool { flags & O_CREAT != 0 }
    /// Whether the program opened the file only to append to it.
    var onlyAppends: Bool { flags & (O_ACCMODE | O_APPEND | O_TRUNC) == O_WRONLY | O_APPEND }

    /// Whether the file has no name any more, or is no longer the document that it was at the open.
    var isReplaced: Bool {
        let (now, hasName) = node.document
        return now != item || !hasName
    }

    /// The access of the handle's claim. A handle without a claim has the access that it would have on a document.
    var access: Access {
        if readsAsSaved { return .read(.withoutChanges) }
        return AccessTable.opening(flags, of: .document) ?? .read()
    }
    var intents: [Intent] { [Intent(access) { [node] in node.path }] }

    var attribution: Attribution {
        let (party, program) = state.withLock { ($0.identity.party, $0.identity.program) }
        return Attribution(
            thread: thread, at: opened, process: party?.process?.number, program: program, run: party?.run
        ) { [node] in node.path }
    }

    func identify() -> Party {
        if let known = state.withLock({ $0.identity.party }) { return known }
        var party = processes.party(ofThread: thread, notAfter: opened)
        if party.process == nil { party = processes.party(ofThread: process, notAfter: opened) }
        let program =
            party.process?.number == thread ? party.program : ProcessInspection.program(ofThread: thread)
        state.withLock { state in
            // Often the thread has the same name as its process. In this case both properties share one copy of the name.
            state.identity.program =
                program == party.program ? party.program : program ?? state.identity.program
            // A party without a process is not stored, because a later call may still find the process.
            if party.process != nil { state.identity.party = party }
        }
        return party
    }

    /// Whether the file may have changed since the program could first write to it by the handle.
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

    /// Called when the file's modification time was set. If the new time equals the time in the baseline, a changed
    /// file looks unchanged. So the fact that the file was changed before this call is recorded now.
    func noteTimeChange(_ time: FileStatus.Time) {
        if baseline?.stamp.modified == time, mayHaveWritten { markWritten() }
    }
}

// The phase of the handle, and the facts about its open.
extension Handle {
    /// Notes that the handle has entered the table. Returns whether the daemon moves the data, and whether the handle has a
    /// descriptor.
    func enterTable() -> (movesData: Bool, hasDescriptor: Bool) {
        state.withLock { state in
            state.phase = max(state.phase, .open)
            return (state.data.isMovedHere, state.data.descriptor != nil)
        }
    }

    /// Notes that the program has closed the file, but can still change it by a mapping.
    func beginLingering() { state.withLock { $0.phase = max($0.phase, .lingeringMapping) } }

    /// Whether the handle is closed: it has left the table, or its open has failed.
    var isClosed: Bool { state.withLock { $0.phase == .closed } }

    /// Releases the handle's descriptor. A thread that is using the file holds the file open until the thread is done.
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

// The claim of the handle, see ``HandleCoordination``.
extension Handle {
    /// Whether the handle has another claim than the claim of its open.
    var isReclaimed: Bool { state.withLock { $0.coordination.isReclaimed } }
    func renewClaim(as claim: ClaimID) { state.withLock { $0.coordination.renew(as: claim) } }
    func claimLate(_ claim: ClaimID) -> Bool { state.withLock { $0.coordination.claimLate(claim) } }
    func giveUpLateClaim() -> ClaimID? { state.withLock { $0.coordination.giveUpLateClaim() } }
    func becomeBystander() -> Bool { state.withLock { $0.coordination.becomeBystander() } }
}

// The data route and the descriptor of the handle, see ``HandleData``.
extension Handle {
    /// Whether the daemon moves the data of this handle.
    var movesData: Bool { state.withLock { $0.data.isMovedHere } }
    /// The open file below; nil if the daemon does not have it open.
    var file: SharedFile? { state.withLock { $0.data.descriptor } }
    func moveData(through file: SharedFile) { state.withLock { $0.data.moveHere(through: file) } }

    /// Stores a descriptor that was opened again. Returns the descriptor that the caller should use, because another thread may
    /// already have stored one. A closed handle stores no descriptor.
    func keep(_ file: SharedFile) -> SharedFile {
        state.withLock { state in
            state.phase == .closed ? state.data.descriptor ?? file : state.data.keep(file)
        }
    }

    /// Whether a mapping that was made by the handle may exist longer than the handle's descriptor (D131).
    var mayOutlive: Bool { state.withLock { $0.data.mayOutlive } }
    func noteMapping(mayOutlive: Bool) { state.withLock { $0.data.noteMapping(mayOutlive: mayOutlive) } }

    /// Whether the kernel caches the contents that it reads by this handle.
    var fillsPageCache: Bool { state.withLock { $0.data.fillsPageCache } }
    func noteCaching(fillsPageCache: Bool) {
        state.withLock { $0.data.noteCaching(fillsPageCache: fillsPageCache) }
    }

    func owe(_ error: Errno) { state.withLock { $0.data.owe(error) } }
    func oweFlush(_ error: Errno) { state.withLock { $0.data.oweFlush(error) } }
    func takeOwedError() -> Errno? { state.withLock { $0.data.takeOwedError() } }
}

// What the program has changed by the handle, see ``HandleWriting``.
extension Handle {
    var baseline: Baseline? { state.withLock { $0.writing.baseline } }
    func setBaseline(_ baseline: Baseline) { state.withLock { $0.writing.baseline = baseline } }

    /// The values from which a change of the file is detected. They are read together under the mutex, so they belong to the
    /// same moment.
    var writing: (baseline: Baseline?, hasWritten: Bool, isReclaimed: Bool) {
        state.withLock { ($0.writing.baseline, $0.writing.hasWritten, $0.coordination.isReclaimed) }
    }

    var hasWritten: Bool { state.withLock { $0.writing.hasWritten } }
    func markWritten() { state.withLock { $0.writing.markWritten() } }
    func forgetWrites() { state.withLock { $0.writing.forgetWrites() } }
    func noteWriteRequest() { state.withLock { $0.writing.noteRequest() } }
    func noteOverwrite() -> Bool { state.withLock { $0.writing.noteOverwrite() } }
    /// Notes that a name of the file was changed. This also changes the time of the file's last status change.
    func noteNameChange(_ stamp: Stamp) { state.withLock { $0.writing.noteNameChange(stamp) } }

    var observedPosition: ObservedPosition? { state.withLock { $0.writing.observedPosition } }
    @discardableResult
    func noteObservedPosition(at position: Int64) -> Instant {
        let now = Engine.now
        return state.withLock { $0.writing.noteObserved(at: position, now: now) }
    }

    var hasProvisionalCopy: Bool { state.withLock { $0.writing.provisionalCopy != nil } }
    func takeProvisionalCopy() -> ProvisionalCopy? { state.withLock { $0.writing.provisionalCopy.take() } }
    /// Stores a provisional copy. Returns the former provisional copy.
    func replaceProvisionalCopy(with copy: ProvisionalCopy) -> ProvisionalCopy? {
        state.withLock { state in
            defer { state.writing.provisionalCopy = copy }
            return state.writing.provisionalCopy.take()
        }
    }
}

// The preserved contents of the handle's file, see ``HandlePreservation``.
extension Handle {
    var writesToOrphan: Bool { state.withLock { $0.preservation.writesToOrphan } }
    func becomeOrphanWriter() { state.withLock { $0.preservation.becomeOrphanWriter() } }

    var linkedVersions: [LinkedVersion] { state.withLock { $0.preservation.linkedVersions } }
    func add(_ version: LinkedVersion) { state.withLock { $0.preservation.add(version) } }
    func takeLinkedVersions() -> [LinkedVersion] { state.withLock { $0.preservation.takeLinkedVersions() } }

    /// Holds the handle's node in the table until ``releaseNode()`` is called, even if the kernel forgets the node.
    func retainNode(in nodes: NodeTable) {
        let node = RetainedNode(node, nodes)
        state.withLock { $0.preservation.retain(node) }
    }

    func releaseNode() {
        // The table's lock is taken after this handle's lock is free.
        let node = state.withLock { $0.preservation.takeRetainedNode() }
        withExtendedLifetime(node) {}
    }

    /// Whether the close of the handle must release a link in the store or the node, or preserve the contents of a file without
    /// a name.
    var hasPreservedFile: Bool { state.withLock { $0.preservation.hasWorkAtClose } }

    /// Whether all contents that the program has left in the file were preserved at close(2). Contents that are written later
    /// are another program's.
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

// Whether the program locks the file itself, see ``LockUse``.
extension Handle {
    /// Whether the program has locked the file, or is expected to lock it.
    var locksFile: Bool { state.withLock { $0.lockUse != .none } }
    var isObservedLocker: Bool { state.withLock { $0.lockUse == .observed } }
    /// Notes that the program is expected to lock the file. Returns false if the program was already expected to lock it.
    @discardableResult
    func expectLock() -> Bool { state.withLock { $0.lockUse.rise(to: .expected) } }
    func noteObservedLock() -> Bool { state.withLock { $0.lockUse.rise(to: .observed) } }
}
