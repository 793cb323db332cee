// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// An open file of an unmodified program, from its OPEN or CREATE to its RELEASE.
final class Handle: Claimant {
    struct State {
        /// The descriptor of the file below, if this process moves the data. It is reopened after the budget closed it.
        var descriptor: SharedFile?
        /// Whether this process moves the data.
        var movesData = false
        /// The handle has left the table: the budget would never close a new descriptor.
        var isClosed = false
        /// The kernel caches the contents that it reads through this handle.
        var fillsPageCache = false
        /// An error that another handle's fsync found while this one had no descriptor to receive it.
        var owedError: Errno?
        /// The stamp of the file when writing became possible.
        var baseline: Stamp?
        /// The baseline is too recent: the file system's clock may not distinguish a later change from it.
        var isBaselineRacy = false
        /// The file had changed before its former time was restored; afterwards, the stamp no longer shows the change.
        var hasWritten = false
        /// The file was preserved by a link before others replaced or deleted it.
        var linkedVersions: [LinkedVersion] = []
        /// The claim made when the handle had given up its first one but wrote after all. Also made when the file, which
        /// needed no claim before, got the name of a document.
        var renewedClaim: ClaimID?
        /// It was opened for writing, and its file only allows appending.
        var isAppendOnly = false
        /// The kernel has looked up the name for the second time, and will not do so again.
        var isRetry = false
        /// The file was replaced or deleted before this open: its contents are preserved.
        var writesToOrphan = false
        /// A mapping made through the handle may outlive it (D131).
        var mayOutlive = false
        /// It writes to a document without a claim, because it could not get one when the file became a document.
        var isUnclaimedWriter = false
        /// The file took the name of a document that had no file: others see another file, whatever is written.
        var fillsName = false
        /// The last observed file position of its program.
        var observedPosition: ObservedPosition?
        /// The contents that others left in the file while this handle had changed nothing.
        var left: ProvisionalCopy?
        /// The record of the file when its writer called close(2).
        var closeRecord: CloseRecord?
        /// The closers that wait while those contents are preserved.
        var closers: [@Sendable () -> Void]?
        /// It was opened to append, but has written elsewhere.
        var hasOverwritten = false
        /// Its program was seen to lock the file by this handle, or is expected to.
        var locksFile = false
        /// Its program was seen to lock the file, not only expected to.
        var isObservedLocker = false
        /// Noted on contention, because the program may have ended when it is reported.
        var program: [UInt8]?
        var party: Party?
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
    /// Whether it was opened to write to a database or a log, which needs no claims. Its writes are still lost when another
    /// program removes the file, whatever the name is by then. False for the journals that SQLite itself removes.
    private let writesToShared: Bool
    unowned let processes: ProcessResolver
    let state = Mutex(State())
    /// The kernel drops the contents it had of the file, and has not read it since.
    let awaitsFirstRead = Atomic(false)
    /// The number of READs of the file before this handle was opened, when the kernel drops its cache (``DataOrder``).
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
    var hasClaim: Bool { isClaimed || state.withLock { $0.renewedClaim != nil } }
    /// Whether the baseline shows the contents when the handle could first write to the file as a document.
    var isMeasured: Bool { isClaimed || state.withLock { $0.renewedClaim != nil || $0.isUnclaimedWriter } }
    /// Whether it may write but others do not wait for it, so that preemption by others is not reported.
    var writesUncoordinated: Bool {
        !isClaimed && state.withLock { $0.renewedClaim == nil && (writesToShared || $0.isUnclaimedWriter) }
    }
    /// The claim in force, if it has one.
    var currentClaim: ClaimID { state.withLock { $0.renewedClaim } ?? claim }
    var mayWrite: Bool { flags & O_ACCMODE != O_RDONLY }
    var truncates: Bool { flags & O_TRUNC != 0 }
    /// Whether it was opened only to append.
    var onlyAppends: Bool { flags & (O_ACCMODE | O_APPEND | O_TRUNC) == O_WRONLY | O_APPEND }

    /// Whether its file is no longer the document, or has no name any more.
    var isReplaced: Bool { node.state.withLock { $0.item != item || !$0.hasName } }

    /// A handle without a claim has the access that it would have on a document.
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
            // A thread without a name of its own needs no second copy of the name.
            state.program = program == party.program ? party.program : program ?? state.program
            // A known party is stored, since the thread may have ended later. An unknown one may be identified later.
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

    /// Notes a change of the file's modification time, which may restore the value of the baseline.
    func noteTimeChange(_ time: FileStatus.Time) {
        if state.withLock({ $0.baseline?.modified == time }), mayHaveWritten { markWritten() }
    }

    /// Notes that a name of the file was changed.
    func noteNameChange(_ stamp: Stamp) {
        state.withLock { state in
            guard !state.hasWritten, state.baseline?.hasSameContents(as: stamp) ?? false else { return }
            state.baseline = stamp
        }
    }

    func markWritten() { state.withLock { $0.hasWritten = true } }
}
