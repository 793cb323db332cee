// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
package import LinuxSystem
import Synchronization
import VersionStore

/// What is compared to tell whether a file was changed.
package struct Stamp: Hashable, Sendable {
    let size: UInt64
    let modified: FileStatus.Time
    let changed: FileStatus.Time

    package init(size: UInt64, modified: FileStatus.Time, changed: FileStatus.Time) {
        self.size = size
        self.modified = modified
        self.changed = changed
    }

    package init(_ status: FileStatus) {
        self.init(size: status.size, modified: status.modified, changed: status.changed)
    }

    /// Whether nothing was written in between. Names that come and go change the third time only.
    func hasSameContents(as other: Stamp) -> Bool { size == other.size && modified == other.modified }

    /// Two different stamps give different numbers but for an accident of one in 2⁶⁴.
    var number: UInt64 {
        var number: UInt64 = 0xCBF2_9CE4_8422_2325
        for part in [
            size, UInt64(bitPattern: modified.seconds), UInt64(modified.nanoseconds),
            UInt64(bitPattern: changed.seconds), UInt64(changed.nanoseconds),
        ] {
            number = (number ^ part) &* 0x0000_0100_0000_01B3
            number ^= number >> 29
        }
        return number
    }
}

/// An open file of an unmodified program, from its OPEN or CREATE to its RELEASE.
final class Handle: Claimant {
    struct State {
        /// Of the file below, if this process moves the data; opened again when it had to go.
        var descriptor: SharedFile?
        /// Whether this process moves the data.
        var movesData = false
        /// It has left the table: a descriptor would never be closed for want of room.
        var isClosed = false
        /// The kernel keeps what it reads through this handle.
        var fillsPageCache = false
        /// What another handle's fsync found out while this one had no descriptor to be told by.
        var owedError: Errno?
        /// What the file looked like when writing became possible.
        var baseline: Stamp?
        /// The baseline is too young for the clock of the file system to tell a later change.
        var isBaselineRacy = false
        /// The file was found changed before its former time was put back, by which it would not be found changed any more.
        var hasWritten = false
        /// The file was kept by a link before others replaced or deleted it.
        var linkedVersions: [LinkedVersion] = []
        /// The claim made when the handle, having yielded, turned out to write after all; or when its file, about which nobody
        /// took turns, was given the name of a document.
        var renewedClaim: ClaimID?
        /// It was opened to write to a file that takes nothing but more at its end.
        var isAppendOnly = false
        /// The kernel has looked the name up for the second time, and will not again.
        var isRetry = false
        /// The file was replaced or deleted before it was opened: what is written is kept.
        var writesToOrphan = false
        /// A mapping that was made by it may live when it is closed (D131).
        var mayOutlive = false
        /// It goes on to write to a document without a claim, since it could not have one when the file became that.
        var isUnclaimedWriter = false
        /// The file took the name of a document that had none: others see another file, whatever is written.
        var fillsName = false
        /// Where its program stood when it was looked at last.
        var observedPosition: ObservedPosition?
        /// What others have left in the file while this handle had changed nothing.
        var left: ProvisionalCopy?
        /// What its writer left in the file at close(2).
        var closeRecord: CloseRecord?
        /// While that is being kept, the closers that wait for it.
        var closers: [@Sendable () -> Void]?
        /// It was opened to append, and has written elsewhere.
        var hasOverwritten = false
        /// Its program was seen to lock the file by it, or is expected to.
        var locksFile = false
        /// The former.
        var isObservedLocker = false
        /// Noted when somebody met the claim; the program may be gone when it is told of.
        var program: [UInt8]?
        var party: Party?
    }

    /// A real descriptor, alive until the last request that uses it is done.
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
    /// The document the claim is about, which need not be the node's any more when it is granted.
    let item: ItemID
    let flags: Int32
    let thread: Int32
    /// Of the request that has opened it.
    let user: UInt32
    private let group: UInt32
    /// Of which process the thread was, which may go on when it has ended; 0 if nobody asked.
    let process: Int32
    let opened: Instant
    /// Whether it was opened with a claim, which takes a document.
    let isClaimed: Bool
    /// Its program was told what the file looks like without what is unsaved, and reads it so (D169).
    let readsAsSaved: Bool
    /// Whether it was opened to write to a database or a log, where nobody takes turns: what it still writes is lost all the same
    /// when somebody else takes the file away, whatever that is called by then. Not of the journals that SQLite itself removes.
    private let writesToShared: Bool
    unowned let processes: ProcessResolver
    let state = Mutex(State())
    /// The kernel drops what it had of the file, and has not come to read yet.
    let awaitsFirstRead = Atomic(false)
    /// The reads of the file before this handle was opened, when the kernel drops what it has read (``DataOrder``).
    let readsBefore = Atomic<UInt64>(0)

    init(
        _ claim: ClaimID, on node: Node, _ item: ItemID, flags: Int32, by caller: Caller, isClaimed: Bool,
        readsAsSaved: Bool = false, processes: ProcessResolver
    ) {
        self.claim = claim
        self.node = node
        self.item = item
        self.flags = flags
        (thread, user, group) = (caller.thread, caller.user, caller.group)
        self.isClaimed = isClaimed
        self.readsAsSaved = readsAsSaved
        self.processes = processes
        writesToShared = !isClaimed && flags & O_ACCMODE != O_RDONLY && node.isDatabaseOrLog
        process =
            isClaimed || flags & O_ACCMODE != O_RDONLY
            ? processes.process(ofOpener: caller.thread, ofDocument: isClaimed) : 0
        opened = Engine.now
    }

    /// The caller that has opened it.
    var caller: Caller { Caller(user: user, group: group, thread: thread, umask: 0) }
    var opener: UInt32? { user }

    func userMayWrite() -> Bool {
        do throws(Errno) {
            let rights = try FileRights(of: node.descriptor().descriptor)
            // Those of a thread that is gone are none that anybody could still write with.
            let groups = [group] + processes.supplementaryGroups(ofThread: thread)
            return rights.user == user || rights.mayWrite(Credentials(user: user, groups: groups))
        } catch {
            return false
        }
    }

    var id: HandleID { HandleID(claim.rawValue) }
    /// Whether the arbiter knows of it.
    var hasClaim: Bool { isClaimed || state.withLock { $0.renewedClaim != nil } }
    /// Whether its baseline is what was in the file when the handle could first write to it as to a document.
    var isMeasured: Bool { isClaimed || state.withLock { $0.renewedClaim != nil || $0.isUnclaimedWriter } }
    /// Whether it may write and nobody waits for it, so that nobody is told that it was gone over.
    var writesUncoordinated: Bool {
        !isClaimed && state.withLock { $0.renewedClaim == nil && (writesToShared || $0.isUnclaimedWriter) }
    }
    /// The claim in force, if it has one.
    var currentClaim: ClaimID { state.withLock { $0.renewedClaim } ?? claim }
    var mayWrite: Bool { flags & O_ACCMODE != O_RDONLY }
    var truncates: Bool { flags & O_TRUNC != 0 }
    /// Whether it was opened for nothing but to make a file longer.
    var onlyAppends: Bool { flags & (O_ACCMODE | O_APPEND | O_TRUNC) == O_WRONLY | O_APPEND }

    /// Whether its file is no longer the document, or is called by no name any more.
    var isReplaced: Bool { node.state.withLock { $0.item != item || !$0.hasName } }

    /// A handle without a claim has the access it would have on a document.
    var access: Access {
        if readsAsSaved { return .read(.withoutChanges) }
        return AccessTable.opening(flags, of: .document) ?? .read()
    }
    var intents: [Intent] { [Intent(access) { [node] in node.path }] }

    var attribution: Attribution {
        let (process, program) = state.withLock { ($0.party?.process?.number, $0.program) }
        return Attribution(thread: thread, at: opened, process: process, program: program) { [node] in
            node.path
        }
    }

    func identify() -> Party {
        if let known = state.withLock({ $0.party }) { return known }
        var party = processes.party(ofThread: thread, notAfter: opened)
        if party.process == nil { party = processes.party(ofThread: process, notAfter: opened) }
        let program =
            party.process?.number == thread ? party.program : ProcessInspection.program(ofThread: thread)
        state.withLock { state in
            // Threads that have no name of their own need no room for it.
            state.program = program == party.program ? party.program : program ?? state.program
            // Who is asked about again when the thread may be gone; nobody may yet turn out to be somebody.
            if party.process != nil { state.party = party }
        }
        return party
    }

    /// Whether the file may have changed since the handle could write to it.
    var mayHaveWritten: Bool {
        let (baseline, isTimeRacy, hasWritten) = state.withLock {
            ($0.baseline, $0.isBaselineRacy, $0.hasWritten)
        }
        do throws(Errno) {
            if hasWritten || hasUnseenStores { return true }
            let stamp = Stamp(try node.descriptor().descriptor.status())
            return isTimeRacy || baseline.map { !$0.hasSameContents(as: stamp) } ?? true
        } catch {
            return true
        }
    }

    /// Somebody sets the time of the file, which may be the one that it had before this handle wrote to it.
    func noteTimeChange(_ time: FileStatus.Time) {
        if state.withLock({ $0.baseline?.modified == time }), mayHaveWritten { markWritten() }
    }

    /// A name of the file was changed.
    func noteNameChange(_ stamp: Stamp) {
        state.withLock { state in
            guard !state.hasWritten, state.baseline?.hasSameContents(as: stamp) ?? false else { return }
            state.baseline = stamp
        }
    }

    func markWritten() { state.withLock { $0.hasWritten = true } }
}

/// The open handles.
final class HandleTable: Sendable {
    private struct State {
        var handles: [HandleID: Handle] = [:]
        /// Those that may write, which are asked for whenever a name goes.
        var writers: [NodeID: [Handle]] = [:]
    }

    private let state = Mutex(State())
    let dataOrder = DataOrder()

    subscript(id: HandleID) -> Handle? { state.withLock { $0.handles[id] } }
    var isEmpty: Bool { state.withLock { $0.handles.isEmpty } }
    var count: Int { state.withLock { $0.handles.count } }
    var all: [Handle] { state.withLock { Array($0.handles.values) } }
    func insert(_ handle: Handle) {
        state.withLock { state in
            state.handles[handle.id] = handle
            if handle.mayWrite { state.writers[handle.node.id, default: []].append(handle) }
        }
        if handle.needsOrder {
            handle.readsBefore.store(dataOrder.open(handle.node.id), ordering: .relaxed)
        }
        if handle.hasDescriptor { handle.node.budget.cached(.file(handle.id)) }
    }
    /// The files that somebody has open to write.
    var writtenNodes: Set<NodeID> { state.withLock { Set($0.writers.keys) } }
    /// Those that may write to a node's file.
    func writers(on node: Node) -> [Handle] {
        // A number may be another file's by now.
        state.withLock { ($0.writers[node.id] ?? []).filter { $0.node === node } }
    }
    /// Those of a node.
    func all(on node: Node) -> [Handle] {
        state.withLock { state in state.handles.values.filter { $0.node === node } }
    }
    func remove(_ id: HandleID) -> Handle? {
        let removed: Handle? = state.withLock { state in
            guard let handle = state.handles.removeValue(forKey: id) else { return nil }
            guard handle.mayWrite, var writers = state.writers[handle.node.id] else { return handle }
            writers.removeAll { $0 === handle }
            state.writers[handle.node.id] = writers.isEmpty ? nil : writers
            return handle
        }
        if let removed, removed.needsOrder { dataOrder.close(removed.node.id) }
        return removed
    }
}
