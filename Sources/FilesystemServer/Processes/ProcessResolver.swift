// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// Finds properties of the processes that make requests: their party, program and file offsets.
///
/// Most properties are read only when programs wait for each other. ``LinuxSystem/ThreadTable`` finds the process of a
/// thread without mistakes. A property that the process can change is read each time that it is needed.
final class ProcessResolver: Sendable {
    /// The mount's number in `/proc/PID/fdinfo`, as processes of the daemon's mount namespace see it.
    private let mountNumber: UInt64
    private let device: UInt64
    /// If a reader has stayed at the end of the data for this long, it counts as idle.
    let readerIdle: TimeSpan
    private let counters: LiveCounters
    private let threads = ThreadTable()

    fileprivate struct Recent {
        var thread: Int32 = 0
        var process: ProcessID?
        var moment = Instant(nanoseconds: 0)
        /// The time of the last check that the thread number still belongs to a thread of this process.
        var confirmed = Instant(nanoseconds: 0)
        var program: [UInt8]?
        var saver: SavingProcess?
        var party: Party?
    }

    private struct Opener {
        var thread: Int32 = 0
        var process: Int32 = 0
        var moment = Instant(nanoseconds: 0)
    }

    private struct Openers {
        /// The last threads that opened files. The index of each is given by the last bits of its thread number.
        var known = [Opener](repeating: Opener(), count: 64)
        var pace = OpenRate()
    }

    /// The properties of an ancestor process by which the daemon determines a party.
    private struct Ancestor {
        let terminal: Int32
        let isManager: Bool
        let isInit: Bool
        let moment: Instant
    }

    fileprivate static let memory = TimeSpan.milliseconds(100)
    /// How long a thread number is trusted without a check, if only the name of the thread's program is needed.
    ///
    /// The kernel assigns thread numbers in order. So within this time, hardly any number is assigned a second time.
    private static let confirmationLasts = TimeSpan.milliseconds(1)
    /// How long the name and terminal of an ancestor are remembered.
    ///
    /// Each question to a presenter needs these data. If they were read from `/proc` each time, the reading would be most of
    /// the work for a question.
    private static let ancestorMemory = TimeSpan.seconds(1)
    private static let rememberedAncestors = 256
    private let ancestors = Mutex<[ProcessID: Ancestor]>([:])
    private let recent = Mutex(Recent())
    private let openers = Mutex(Openers())
    private let lowered = LowPriorityPrograms()
    let authors = AuthorTable()
    let programs: ProgramClasses
    let actors: ActorFinder
    /// The last party that was found. Ten thousand waiting threads may have the same party, and this lets them share
    /// its memory.
    private let latest = Mutex(Party.nobody)

    init(
        using mount: MountEntry, counters: LiveCounters, readerIdle: TimeSpan,
        knowing programs: ProgramClasses, and runs: RunRegistry
    ) {
        self.programs = programs
        actors = ActorFinder(runs)
        (mountNumber, device) = (UInt64(mount.id), mount.device)
        self.counters = counters
        self.readerIdle = readerIdle
    }

    /// Returns the party of a thread that made a claim at `moment`.
    ///
    /// Returns `nobody` if the thread has ended, or if its number now belongs to a thread that started after `moment`.
    func party(ofThread thread: Int32, notAfter moment: Instant) -> Party {
        guard let looked = look(thread), hasStarted(looked.found, before: moment) else { return .nobody }
        return party(of: looked, thread: thread)
    }

    /// Returns the process of a thread that opens a file, or 0 if the process cannot be found.
    ///
    /// The process is determined at the open, because the thread may end while its process uses the file. The answer is
    /// remembered for a short time, because each query takes a microsecond or two.
    ///
    /// `ofDocument`: whether the file is a document. A process that quickly opens many documents may be added to
    /// ``LowPriorityPrograms``.
    func process(ofOpener thread: Int32, ofDocument: Bool = false, at now: Instant = Engine.now) -> Int32 {
        guard thread > 0 else { return 0 }
        let slot = Int(thread) & 63
        let (known, isQuick) = openers.withLock { openers -> (Int32?, Bool) in
            let known = openers.known[slot]
            guard known.thread == thread, now.since(known.moment) < Self.memory else { return (nil, false) }
            return (known.process, ofDocument && openers.pace.note(known.process, at: now))
        }
        if let known {
            if isQuick { opensMany(known) }
            return known
        }
        guard let process = ProcessInspection.process(ofThread: thread) else { return 0 }
        let isQuickNow = openers.withLock { openers in
            openers.known[slot] = Opener(thread: thread, process: process, moment: now)
            return ofDocument && openers.pace.note(process, at: now)
        }
        if isQuickNow { opensMany(process) }
        return process
    }

    private func opensMany(_ process: Int32) {
        guard ProcessInspection.hasLowestPriority(process), let found = threads.find(process),
            found.process == process, lowered.insert(found.id)
        else { return }
        // The class of this program has changed, so the remembered party of the process is wrong now.
        recent.withLock { if $0.process == found.id { $0 = Recent() } }
    }

    /// Returns the party of a process. Returns `nobody` if the process has ended, or if the number belongs to a thread
    /// that is not the first of its process.
    func party(ofProcess process: Int32) -> Party {
        guard let looked = look(process), looked.found.process == process else { return .nobody }
        return party(of: looked)
    }

    private func party(of looked: ResolvedThread, thread: Int32 = 0) -> Party {
        guard let leader = leader(of: looked) else { return .nobody }
        let found = looked.found
        let family = family(from: found.parent)
        // If the session's first process is in another pid namespace, the daemon cannot see the session's number. The
        // number of the process itself is used then.
        let session = leader.session != 0 ? leader.session : found.process
        let ancestors = family.map(\.process)
        var party = Party(
            process: found.id, ancestors: ancestors,
            programClass: programClass(of: found.id, called: leader.program), program: leader.program,
            user: found.user, session: session, terminals: [leader.terminal] + family.map(\.terminal),
            runs: actors.runs(of: found.id, user: found.user, ancestors: ancestors))
        party.thread = thread
        party.shareStorage(with: latest.withLock { $0 })
        latest.withLock { $0 = party }
        return party
    }

    private func programClass(of process: ProcessID, called program: [UInt8]) -> ProgramClass {
        let named = programs.programClass(of: program)
        return named == .ordinary && lowered.contains(process) ? .background : named
    }

    /// Returns the party of a thread that is making a request now.
    func currentParty(ofThread thread: Int32) -> Party {
        remembered(thread, { $0.party }, { $0.party = $1 }) { party(of: $0, thread: thread) } ?? .nobody
    }

    /// Returns the process of a thread in the form that save detection needs.
    func saver(ofThread thread: Int32) -> SavingProcess? {
        remembered(thread, { $0.saver }, { $0.saver = $1 }) { looked in
            guard let leader = leader(of: looked) else { return nil }
            let found = looked.found
            let parent = found.parent > 1 ? threads.find(found.parent)?.id : nil
            return SavingProcess(process: found.id, parent: parent, session: leader.session)
        }
    }

    /// Returns a remembered answer, if the same thread was asked about a moment ago. Otherwise finds the answer and
    /// remembers it.
    ///
    /// `git checkout` and `rm -r` cause ten thousand such queries in succession. The parameters are closures and not
    /// key paths, because key paths would take most of the time.
    private func remembered<Answer: Sendable>(
        _ thread: Int32, _ recall: (Recent) -> Answer?, _ keep: (inout Recent, Answer?) -> Void,
        _ look: (ResolvedThread) -> Answer?
    ) -> Answer? {
        guard let looked = self.look(thread) else { return nil }
        let (now, process) = (Engine.now, looked.found.id)
        let known: Answer? = recent.withLock { recent in
            guard recent.isAbout(thread, of: process, at: now) else { return nil }
            recent.confirmed = now
            return recall(recent)
        }
        if let known { return known }
        let answer = look(looked)
        recent.withLock { recent in
            if !recent.isAbout(thread, of: process, at: now) {
                recent = Recent(thread: thread, process: process, moment: now, confirmed: now)
            }
            keep(&recent, answer)
        }
        return answer
    }

    /// Returns the name of a thread's program; an empty name if the thread has ended.
    func program(ofThread thread: Int32) -> [UInt8] {
        // Each unlink(2) needs the name of its thread's program. Mostly one thread makes many such calls, so the last name is
        // reused.
        let known = recent.withLock { recent in
            recent.thread == thread && Engine.now.since(recent.confirmed) < Self.confirmationLasts
                ? recent.program : nil
        }
        return known ?? remembered(thread, { $0.program }, { $0.program = $1 }) { _ in
            ProcessInspection.program(ofThread: thread)
        } ?? []
    }

    func isAlive(_ process: ProcessID) -> Bool {
        guard look(process.number)?.found.id == process else { return false }
        return ProcessInspection.status(ofThread: process.number)?.isZombieProcess != true
    }

    /// Returns the supplementary groups of a thread; none if the thread has ended.
    func supplementaryGroups(ofThread thread: Int32) -> [UInt32] {
        counters.identified.count()
        return ProcessInspection.supplementaryGroups(ofThread: thread)
    }

    /// Returns the process with this number, without the count of an identification. Returns nil if the number belongs to no
    /// process.
    func processID(of number: Int32) -> ProcessID? {
        guard let found = threads.find(number), found.process == number else { return nil }
        return found.id
    }

    /// Returns a process with its status. Returns nil if the process has ended.
    func identify(_ number: Int32, isCounted: Bool = true) -> IdentifiedProcess? {
        if isCounted { counters.identified.count() }
        guard let looked = threads.look(number), looked.found.process == number,
            let status = leader(of: looked)
        else { return nil }
        return IdentifiedProcess(id: looked.found.id, user: looked.found.user, status: status)
    }

    private typealias ResolvedThread = (
        found: ThreadTable.KnownThread, leader: ProcessInspection.ProcessStatus?
    )

    private func look(_ thread: Int32) -> ResolvedThread? {
        counters.identified.count()
        return threads.look(thread)
    }

    /// Returns the status of a process. Reads the status only if the caller has not read it yet. Returns nil if the
    /// process has ended.
    private func leader(of looked: ResolvedThread) -> ProcessInspection.ProcessStatus? {
        if let leader = looked.leader { return leader }
        let leader = ProcessInspection.status(ofProcess: looked.found.process)
        return leader?.started == looked.found.started ? leader : nil
    }

    /// Returns the ancestors of a process that count as the same program, beginning with the parent.
    ///
    /// The list ends before a process that adopts orphans, such as a service manager. The children of such a process
    /// are unrelated to each other.
    private func family(from parent: Int32) -> [(process: ProcessID, terminal: Int32)] {
        var members: [(process: ProcessID, terminal: Int32)] = []
        var next = parent
        // No real process has 64 ancestors. If there seem to be more, processes have ended and started during the
        // search.
        while next > 1, members.count < 64, let found = threads.find(next) {
            guard let ancestor = ancestor(found), !ancestor.isManager else { break }
            if !ancestor.isInit { members.append((found.id, ancestor.terminal)) }
            next = found.parent
        }
        return members
    }

    private func ancestor(_ found: ThreadTable.KnownThread) -> Ancestor? {
        let (now, id) = (Engine.now, found.id)
        let known = ancestors.withLock { $0[id] }
        if let known, now.since(known.moment) < Self.ancestorMemory { return known }
        guard let status = ProcessInspection.status(ofProcess: found.process), status.started == found.started
        else { return nil }
        let ancestor = Ancestor(
            terminal: status.terminal, isManager: programs.adoptsOrphans(status.program),
            isInit: known?.isInit ?? ProcessInspection.isInit(found.process), moment: now)
        ancestors.withLock { ancestors in
            if ancestors.count >= Self.rememberedAncestors { ancestors = [:] }
            ancestors[id] = ancestor
        }
        return ancestor
    }

    /// Returns whether a thread existed at a moment. If the daemon first saw the thread after that moment, the thread's
    /// start time decides.
    private func hasStarted(_ found: ThreadTable.KnownThread, before moment: Instant) -> Bool {
        found.known <= moment.nanoseconds
            || ProcessInspection.hadStarted(found.threadStarted, at: moment.nanoseconds)
    }
}

extension ProcessResolver.Recent {
    fileprivate func isAbout(_ thread: Int32, of process: ProcessID, at now: Instant) -> Bool {
        self.thread == thread && self.process == process && now.since(moment) < ProcessResolver.memory
    }
}

extension ThreadTable.KnownThread {
    fileprivate var id: ProcessID { ProcessID(number: process, started: started) }
}

// These functions read the file offsets and locks of processes from `/proc`.
extension ProcessResolver {
    /// The most descriptors of a process among which a file is searched. If the process has more, the file offset may
    /// not be found.
    private static let longestSearch = 4096
    /// The most descriptors of a process among which a lock on a file is searched.
    private static let fewDescriptors = 512

    /// Returns the file offset at which a thread's process reads a file through the mount.
    ///
    /// If the offset cannot be read, returns the same value each time. The reader then counts as idle.
    func observeReader(thread: Int32, or known: Int32, of node: Node) -> Observation {
        let unknown = Observation.reading(position: -1)
        let positions = positions(thread: thread, or: known, of: node)
        guard let first = positions.first else { return unknown }
        let size: UInt64
        do throws(Errno) {
            size = try node.descriptor().descriptor.status().size
        } catch {
            return unknown
        }
        // If the process has several descriptors of the file, the sum of all offsets is used: it changes with each of
        // them.
        let position = positions.count == 1 ? first : positions.reduce(0, &+)
        let isAtEnd = positions.allSatisfy { $0 >= Int64(size) }
        return isAtEnd ? .atEndUnconfirmed(position: position) : .reading(position: position)
    }

    /// Returns the file offset of a thread's process in a file that the process may write to. Returns -1 if the offset
    /// cannot be read.
    func position(ofWriter thread: Int32, or known: Int32, of node: Node, mode: Int32) -> Int64 {
        let positions = positions(thread: thread, or: known, of: node, mode: mode)
        return positions.isEmpty ? -1 : positions.reduce(0, &+)
    }

    private func positions(thread: Int32, or known: Int32, of node: Node, mode: Int32? = nil) -> [Int64] {
        guard let process = (look(thread) ?? look(known))?.found.process else { return [] }
        let positions = readPositions(of: process, inode: node.number, mode: mode)
        guard positions.isEmpty else { return positions }
        let other = ProcessInspection.livingThread(of: process)
        return other == process ? [] : readPositions(of: other, inode: node.number, mode: mode)
    }

    /// Reads the offsets of all descriptors by which a process has a file open.
    ///
    /// Descriptors of other kinds are not read, because the read may block. For example, the entry of an epoll
    /// descriptor waits for a lock that may be held for long.
    private func readPositions(of process: Int32, inode: UInt64, mode: Int32?) -> [Int64] {
        var positions: [Int64] = []
        forEachDescriptor(of: process, ofInode: inode, among: Self.longestSearch) { fields, _ in
            if mode ?? fields.mode == fields.mode { positions.append(fields.position) }
            return true
        }
        return positions
    }

    /// Returns whether the process of a thread has locked a file by a writable descriptor. Returns false if that cannot
    /// be determined.
    ///
    /// The kernel manages such locks itself, and shows them only in the `/proc` entries of the process's descriptors.
    /// The daemon cannot read these entries of an ended process, or of another user's process.
    func holdsLock(thread: Int32, or known: Int32, on node: Node) -> Bool {
        guard let process = (look(thread) ?? look(known))?.found.process else { return false }
        let seen = ProcessInspection.livingThread(of: process)
        var isFound = false
        forEachDescriptor(of: seen, ofInode: node.number, among: Self.fewDescriptors) { fields, text in
            isFound = fields.mode != O_RDONLY && FileLocks.areHeld(by: text)
            return !isFound
        }
        return isFound
    }

    /// Calls `body` for each descriptor by which a process has a file open, until `body` returns false.
    private func forEachDescriptor(
        of process: Int32, ofInode inode: UInt64, among most: Int, _ body: (Fields, [UInt8]) -> Bool
    ) {
        guard let stream = opendir("/proc/\(process)/fdinfo") else { return }
        defer { closedir(stream) }
        var looked = 0
        while let entry = readdir(stream), looked < most {
            guard entry.pointee.d_name.0 != UInt8(ascii: ".") else { continue }
            looked += 1
            let name = UnsafeRawPointer(entry) + MemoryLayout<dirent>.offset(of: \.d_name)!
            let number = String(cString: name.assumingMemoryBound(to: CChar.self))
            guard ProcessScan.cachedDevice("/proc/\(process)/fd/\(number)") == device,
                // Only the beginning of the entry is read. The needed fields are there; a long list of locks may
                // follow.
                let text = readBeginning("/proc/\(process)/fdinfo/\(number)")
            else { continue }
            let fields = Self.fields(of: text)
            guard fields.inode == inode, fields.mount == mountNumber else { continue }
            if !body(fields, text) { return }
        }
    }

    private struct Fields {
        var position: Int64 = 0
        /// The access mode of the descriptor, from the flags of open(2): read, write or both.
        var mode: Int32 = 0
        var inode: UInt64 = 0
        var mount: UInt64 = 0
    }

    private static func fields(of text: [UInt8]) -> Fields {
        var found = Fields()
        for line in text.split(separator: UInt8(ascii: "\n")).prefix(4) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
            let value = String(decoding: line[line.index(after: colon)...], as: UTF8.self)
                .drop { $0 == "\t" || $0 == " " }
            switch String(decoding: line[..<colon], as: UTF8.self) {
            case "pos": found.position = Int64(value) ?? 0
            case "flags": found.mode = (Int32(value, radix: 8) ?? 0) & O_ACCMODE
            case "ino": found.inode = UInt64(value) ?? 0
            case "mnt_id": found.mount = UInt64(value) ?? 0
            default: break
            }
        }
        return found
    }
}
