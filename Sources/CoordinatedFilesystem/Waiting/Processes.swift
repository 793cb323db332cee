// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// What the daemon wants to know about the processes behind requests.
///
/// Next to nothing is remembered: it is asked only where programs meet, and `/proc` is the truth.
final class Processes: Sendable {
    /// The mount's number in `/proc/PID/fdinfo`, as processes of our own mount namespace see it.
    let mountNumber: UInt64
    private let ticksPerSecond = UInt64(max(sysconf(CInt(_SC_CLK_TCK)), 1))

    private struct Recent {
        var thread: Int32 = 0
        var moment = Instant(nanoseconds: 0)
        var program: [UInt8]?
        var actor: Actor?
        var party: Party?
    }

    private struct Ancestor {
        let process: ProcessID
        let terminal: Int32
    }

    private struct Family {
        let members: [Ancestor]
        let moment: Instant
    }

    private static let memory = Span.milliseconds(100)
    /// How long it is remembered who is above a process.
    ///
    /// A parent that is asked about lives, for its child names it just now, and its number is not given to
    /// somebody else that soon. Reading `/proc` once for each ancestor is most of what asking a presenter costs.
    private static let familyMemory = Span.seconds(1)
    private static let rememberedFamilies = 64
    private let families = Mutex<[Int32: Family]>([:])
    private let recent = Mutex(Recent())

    init(mountNumber: UInt64) { self.mountNumber = mountNumber }

    /// The party of a thread that made a claim at `moment`; nobody if the thread is gone, or if its number
    /// belongs to a younger thread by now.
    func party(ofThread thread: Int32, notAfter moment: Instant) -> Party {
        guard thread > 0, let threadStatus = ProcessInspection.status(ofThread: thread),
            let own = ProcessInspection.status(ofProcess: thread), hasStarted(own, before: moment),
            let leader = threadStatus.process == thread
                ? own : ProcessInspection.status(ofProcess: threadStatus.process)
        else { return .nobody }
        var party = party(of: threadStatus, leader)
        party.thread = thread
        return party
    }

    /// The party of a process by its number, which must not be a mere thread's; nobody if it is gone.
    func party(ofProcess process: Int32) -> Party {
        guard process > 0, let thread = ProcessInspection.status(ofThread: process),
            thread.process == process,
            let leader = ProcessInspection.status(ofProcess: process)
        else { return .nobody }
        return party(of: thread, leader)
    }

    private func party(
        of thread: ProcessInspection.ThreadStatus, _ leader: ProcessInspection.ProcessStatus
    ) -> Party {
        let family = family(of: leader.parent)
        var party = Party(
            process: ProcessID(number: thread.process, started: leader.started),
            ancestors: family.map(\.process),
            programClass: ProgramClasses.programClass(of: leader.program))
        party.program = leader.program
        party.user = thread.user
        party.session = leader.session
        party.terminals = [leader.terminal] + family.map(\.terminal)
        return party
    }

    /// The party of a thread that is in a request just now.
    func currentParty(ofThread thread: Int32) -> Party {
        remembered(thread, \.party) { party(ofThread: thread, notAfter: Engine.now) } ?? .nobody
    }

    /// Who saves, for the recogniser.
    func actor(ofThread thread: Int32) -> Actor? {
        remembered(thread, \.actor) { readActor(ofThread: thread) }
    }

    private func readActor(ofThread thread: Int32) -> Actor? {
        guard thread > 0, let threadStatus = ProcessInspection.status(ofThread: thread),
            let leader = ProcessInspection.status(ofProcess: threadStatus.process)
        else { return nil }
        let parent = ProcessInspection.status(ofProcess: leader.parent).map {
            ProcessID(number: leader.parent, started: $0.started)
        }
        return Actor(
            process: ProcessID(number: threadStatus.process, started: leader.started),
            parent: leader.parent > 1 ? parent : nil, session: leader.session)
    }

    /// The name of a thread's program; empty if it is gone.
    func program(ofThread thread: Int32) -> [UInt8] {
        remembered(thread, \.program) { ProcessInspection.program(ofThread: thread) } ?? []
    }

    /// Answers from memory if the same thread was asked about a moment ago: `git checkout` and `rm -r` ask
    /// ten thousand times in a row. A thread's number is not reused within that moment.
    private func remembered<Answer: Sendable>(
        _ thread: Int32, _ field: any WritableKeyPath<Recent, Answer?> & Sendable, _ look: () -> Answer?
    ) -> Answer? {
        let now = Engine.now
        let known: Answer? = recent.withLock { recent in
            guard recent.thread == thread, now.since(recent.moment) < Self.memory else { return nil }
            return recent[keyPath: field]
        }
        if let known { return known }
        let answer = look()
        recent.withLock { recent in
            if recent.thread != thread || now.since(recent.moment) >= Self.memory {
                recent = Recent(thread: thread, moment: now)
            }
            recent[keyPath: field] = answer
        }
        return answer
    }

    func isAlive(_ process: ProcessID) -> Bool {
        guard let status = ProcessInspection.status(ofProcess: process.number),
            status.started == process.started
        else { return false }
        let state = ProcessInspection.status(ofThread: process.number)?.state
        return state != UInt8(ascii: "Z") && state != UInt8(ascii: "X")
    }

    private func family(of parent: Int32) -> [Ancestor] {
        let now = Engine.now
        let known = families.withLock { $0[parent] }
        if let known, now.since(known.moment) < Self.familyMemory { return known.members }
        let members = ancestors(from: parent)
        families.withLock { families in
            if families.count >= Self.rememberedFamilies { families = [:] }
            families[parent] = Family(members: members, moment: now)
        }
        return members
    }

    /// From the parent upwards. Pid 1 and service managers adopt strangers, so they are nobody's family.
    private func ancestors(from parent: Int32) -> [Ancestor] {
        var found: [Ancestor] = []
        var next = parent
        // Nobody nests deeper; a longer chain means that processes change while they are looked at.
        while next > 1, found.count < 64, let status = ProcessInspection.status(ofProcess: next) {
            guard status.program != Array("systemd".utf8) else { break }
            found.append(
                Ancestor(
                    process: ProcessID(number: next, started: status.started), terminal: status.terminal))
            next = status.parent
        }
        return found
    }

    /// Whether a thread existed at a moment of the monotonic clock.
    ///
    /// The kernel counts its start in ticks of the boot clock, so one tick of doubt remains; thread numbers
    /// are not reused that fast.
    private func hasStarted(_ status: ProcessInspection.ProcessStatus, before moment: Instant) -> Bool {
        var boot = timespec()
        clock_gettime(CLOCK_BOOTTIME, &boot)
        let nowInBootTime = UInt64(boot.tv_sec) * 1_000_000_000 + UInt64(boot.tv_nsec)
        let age = Engine.now.since(moment).nanoseconds
        let momentInTicks = (nowInBootTime - min(age, nowInBootTime)) / (1_000_000_000 / ticksPerSecond)
        return status.started <= momentInTicks
    }
}

// Looking at readers.
extension Processes {
    /// How many descriptors of a process are looked at before its position counts as unknown.
    private static let longestSearch = 4096

    /// Where the process of a thread stands in a file it reads through the mount.
    ///
    /// A position that cannot be read is always the same, so its reader counts as standing still.
    func observeReader(thread: Int32, of node: Node) -> Observation {
        let unknown = Observation.reading(position: -1)
        guard let process = ProcessInspection.status(ofThread: thread)?.process else { return unknown }
        let positions = readPositions(of: process, inode: node.number)
        guard let first = positions.first else { return unknown }
        let size: UInt64
        do throws(Errno) {
            size = try node.descriptor().descriptor.status().size
        } catch {
            return unknown
        }
        if positions.allSatisfy({ $0 >= Int64(size) }) { return .atEnd }
        // Several descriptors: any movement of any of them changes the sum.
        return .reading(position: positions.count == 1 ? first : positions.reduce(0, &+))
    }

    private func readPositions(of process: Int32, inode: UInt64) -> [Int64] {
        guard let stream = opendir("/proc/\(process)/fdinfo") else { return [] }
        defer { closedir(stream) }
        var positions: [Int64] = []
        var looked = 0
        while let entry = readdir(stream), looked < Self.longestSearch {
            guard entry.pointee.d_type == UInt8(DT_REG) else { continue }
            looked += 1
            let name = UnsafeRawPointer(entry) + MemoryLayout<dirent>.offset(of: \.d_name)!
            let number = String(cString: name.assumingMemoryBound(to: CChar.self))
            guard let text = readSmallFile("/proc/\(process)/fdinfo/\(number)") else { continue }
            let fields = Self.fields(of: text)
            if fields.inode == inode, fields.mount == mountNumber { positions.append(fields.position) }
        }
        return positions
    }

    private static func fields(of text: [UInt8]) -> (position: Int64, inode: UInt64, mount: UInt64) {
        var found: (position: Int64, inode: UInt64, mount: UInt64) = (0, 0, 0)
        for line in text.split(separator: UInt8(ascii: "\n")).prefix(4) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
            let value = String(decoding: line[line.index(after: colon)...], as: UTF8.self)
                .drop { $0 == "\t" || $0 == " " }
            switch String(decoding: line[..<colon], as: UTF8.self) {
            case "pos": found.position = Int64(value) ?? 0
            case "ino": found.inode = UInt64(value) ?? 0
            case "mnt_id": found.mount = UInt64(value) ?? 0
            default: break
            }
        }
        return found
    }
}
