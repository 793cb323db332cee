// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import History
import LinuxSystem
import Synchronization
import VersionStore

/// Makes events of the history from the steps that requests have noted: finds the paths, the rights and the names of contents,
/// and leaves out steps that no user wants to read.
final class HistoryDrafts: Sendable {
    /// A file that a program made a short time ago. If the program renames the file over a document, it has saved the document.
    private struct Creation {
        let process: Int32
        let moment: Instant
    }

    private static let mostCreations = 1024
    private static let creationMemory = TimeSpan.seconds(60)

    /// Whether other users than the daemon's own use the mount, so that access control lists and directories count.
    private let isShared: Bool
    private let creations = Mutex<[[UInt8]: Creation]>([:])

    init(isShared: Bool) { self.isShared = isShared }

    func events(
        of steps: [HistoryStep], and engineSteps: [EngineStep], _ finished: [HistoryEvent], missing: Int,
        at clock: HistoryClock
    ) -> [HistoryEvent] {
        var draft = Draft(isShared: isShared, clock: clock)
        var list = EventList()
        for step in steps { add(step, to: &list, in: &draft) }
        var events = Self.joined(list.events)
        for step in engineSteps { events.append(event(of: step, clock)) }
        events += finished
        if !engineSteps.isEmpty || !finished.isEmpty { events.sort { $0.time < $1.time } }
        if missing > 0 {
            var gap = HistoryEvent(.gap, [], at: clock.present)
            gap.detail = "\(missing)"
            events.append(gap)
        }
        return events
    }

    /// Leaves out each event that an equal step of the same program to the same document follows.
    private static func joined(_ events: [HistoryEvent]) -> [HistoryEvent] {
        var latest: [HistoryKey: Int] = [:]
        /// For each path the last event with it, also as the new path.
        var latestAtPath: [[UInt8]: Int] = [:]
        var isLeftOut = [Bool](repeating: false, count: events.count)
        for (index, event) in events.enumerated() {
            switch event.kind {
            case .written, .read:
                let key = HistoryKey(event)
                // Another step with the same document can be between two equal steps.
                if let former = latest[key], latestAtPath[event.path] == former { isLeftOut[former] = true }
                latest[key] = index
            default: break
            }
            latestAtPath[event.path] = index
            if let newPath = event.newPath { latestAtPath[newPath] = index }
        }
        return zip(events, isLeftOut).filter { !$0.1 }.map(\.0)
    }

    private struct HistoryKey: Hashable {
        let kind: HistoryKind
        let path: [UInt8]
        let actor: HistoryActor

        init(_ event: HistoryEvent) { (kind, path, actor) = (event.kind, event.path, event.actor) }
    }

    private func event(of step: EngineStep, _ clock: HistoryClock) -> HistoryEvent {
        let attribution = step.subject.attribution
        let kind: HistoryKind = step.kind == .asked ? .asked : .forfeited
        var event = HistoryEvent(kind, attribution.path(), at: clock.time(of: step.moment))
        let (process, program) = attribution.identity
        event.actor = HistoryActor(
            program: program ?? [], process: process, user: attribution.user,
            run: attribution.run.map { Array($0.name.utf8) }, runProcess: attribution.run?.pid,
            runIdentity: attribution.run.map(HistoryActor.identity))
        event.detail = step.detail
        return event
    }

    private func add(_ step: HistoryStep, to events: inout EventList, in draft: inout Draft) {
        guard let directory = step.directory else { return }
        let place = draft.place(of: step.name, in: directory)
        switch step.kind {
        case .created:
            note(step, at: place.path)
            // A program that takes the document's name away and makes a new file saves the document.
            let isSave = draft.isLogged(place, step) && takeDeparture(of: place, by: step, from: &events)
            events += draft.event(isSave ? .written : .created, place, step)
        case .closed(let baseline):
            if let baseline, !draft.isChanged(place, since: baseline) { return }
            events += draft.event(.written, place, step)
        case .removed(let rights): events += draft.event(.deleted, place, step, rights: rights)
        case .read: events += draft.event(.read, place, step)
        case .preserved(let version, let cause):
            events += draft.event(.preserved, place, step) { event in
                (event.version, event.detail) = (version.description, cause.rawValue)
            }
        case .foundEmpty: events += draft.event(.preserved, place, step) { $0.detail = "empty" }
        case .renamed(let name, let newDirectory, let replaces):
            let target = draft.place(of: name, in: newDirectory)
            addRename(from: place, to: target, replaces: replaces, step, to: &events, &draft)
        case .exchanged(let name, let newDirectory):
            let other = draft.place(of: name, in: newDirectory)
            events += draft.event(.written, place, step) + draft.event(.written, other, step)
        }
    }

    /// A rename over a document is a write of this document (D20). If the program made the renamed file just before, the file was
    /// only a step of the save.
    private func addRename(
        from place: Draft.Place, to target: Draft.Place, replaces: Bool, _ step: HistoryStep,
        to events: inout EventList, _ draft: inout Draft
    ) {
        let isOwnFile = take(step, at: place.path)
        let isDocument = draft.isLogged(place, step)
        guard replaces || !isDocument, draft.isLogged(target, step) else {
            events += draft.event(.moved, place, to: target, step)
            return
        }
        let isOnlyStep = isOwnFile && events.removeContents(at: place.path) || !isDocument
        let isSave = replaces || takeDeparture(of: target, by: step, from: &events)
        let closed = draft.closedDirectories(above: place)
        events += draft.event(isSave ? .written : .created, target, step) { event in
            if !isOnlyStep { (event.source, event.sourceClosed) = (place.path, closed) }
        }
    }

    /// Takes out the event by which the same program has taken the document's name away, if this is the last event with the
    /// document. The new file is then the document, and not another one.
    private func takeDeparture(
        of place: Draft.Place, by step: HistoryStep, from events: inout EventList
    ) -> Bool {
        guard let author = step.author else { return false }
        return events.removeLast(at: place.path) { event in
            event.actor.process == author.process && event.path == place.path
                && (event.kind == .deleted || event.isMoveToBackup)
        }
    }

    private func note(_ step: HistoryStep, at path: [UInt8]) {
        guard let author = step.author else { return }
        creations.withLock { creations in
            if creations.count >= Self.mostCreations { creations = [:] }
            creations[path] = Creation(process: author.process, moment: step.moment)
        }
    }

    /// Whether the program of a rename made the renamed file just before.
    private func take(_ step: HistoryStep, at path: [UInt8]) -> Bool {
        guard let found = creations.withLock({ $0.removeValue(forKey: path) }), let author = step.author
        else {
            return false
        }
        return found.process == author.process && step.moment.since(found.moment) < Self.creationMemory
    }
}

/// The events of one batch in the order of their steps. They are found by their paths without a search.
private struct EventList {
    private var all: [HistoryEvent?] = []
    /// For each path the indexes of the events with it, also as the new path.
    private var places: [[UInt8]: [Int]] = [:]

    var events: [HistoryEvent] { all.compactMap(\.self) }

    static func += (list: inout EventList, events: [HistoryEvent]) {
        for event in events { list.append(event) }
    }

    private mutating func append(_ event: HistoryEvent) {
        places[event.path, default: []].append(all.count)
        if let newPath = event.newPath { places[newPath, default: []].append(all.count) }
        all.append(event)
    }

    /// Removes the last event with a path if it meets a condition. Returns whether it is removed.
    mutating func removeLast(at path: [UInt8], if isMet: (HistoryEvent) -> Bool) -> Bool {
        guard let index = places[path]?.last(where: { all[$0] != nil }), let event = all[index],
            isMet(event)
        else { return false }
        all[index] = nil
        return true
    }

    /// Removes the events by which a file was made and written. Returns whether there were any.
    mutating func removeContents(at path: [UInt8]) -> Bool {
        guard let indexes = places[path] else { return false }
        let found = indexes.filter { index in
            guard let event = all[index], event.path == path else { return false }
            return event.kind == .created || event.kind == .written
        }
        for index in found { all[index] = nil }
        places[path] = indexes.filter { all[$0] != nil }
        return !found.isEmpty
    }
}

extension HistoryEvent {
    /// Whether the document got the name of a backup or helper file.
    fileprivate var isMoveToBackup: Bool {
        let slash = UInt8(ascii: "/")
        guard kind == .moved, let former = path.split(separator: slash).last,
            let name = newPath?.split(separator: slash).last
        else { return false }
        return ItemClass(of: Array(name)) == .private
            || HelperFileName.isBackupName(Array(name), of: Array(former))
    }
}

/// The paths and rights that the steps of one batch share.
struct Draft {
    struct Place {
        let name: NameBytes
        let directory: Node
        let path: [UInt8]
        let itemClass: ItemClass
    }

    private struct Folder {
        let path: [UInt8]
        let closed: [FileRights]
        /// Whether the directory is in a directory `.git`, whose files are git's own.
        let isInternal: Bool
    }

    private let isShared: Bool
    private let clock: HistoryClock
    private var folders: [ObjectIdentifier: Folder] = [:]

    init(isShared: Bool, clock: HistoryClock) {
        self.isShared = isShared
        self.clock = clock
    }

    mutating func place(of name: NameBytes, in directory: Node) -> Place {
        let folder = folder(directory).path
        let path = folder.isEmpty ? name.bytes : folder + [UInt8(ascii: "/")] + name.bytes
        return Place(
            name: name, directory: directory, path: path,
            itemClass: Node.itemClass(of: name, in: directory))
    }

    /// The rights of the directories above a place that some users cannot enter.
    mutating func closedDirectories(above place: Place) -> [FileRights] { folder(place.directory).closed }

    private mutating func folder(_ directory: Node) -> Folder {
        if let known = folders[ObjectIdentifier(directory)] { return known }
        var closed: [FileRights] = []
        if isShared {
            let rights = Self.rights(of: directory)
            if !rights.isOpenToAll { closed.append(rights) }
            if !directory.isRoot, let parent = directory.parent { closed += folder(parent).closed }
        }
        let path = directory.path
        let isInternal = path.split(separator: UInt8(ascii: "/")).contains { $0.elementsEqual(".git".utf8) }
        let folder = Folder(path: path, closed: closed, isInternal: isInternal)
        folders[ObjectIdentifier(directory)] = folder
        return folder
    }

    private static func rights(of directory: Node) -> FileRights {
        do throws(Errno) {
            return try FileRights(of: directory.descriptor().descriptor)
        } catch {
            return FileRights(user: 0, group: 0, mode: 0, accessControlList: nil)
        }
    }

    /// Whether the history has the steps with a file of this name: it is a document, a run has written it, or the step is a read
    /// of a presented file or of one whose reads a rule asks for. Of git's own files, it has only such reads.
    mutating func isLogged(_ place: Place, _ step: HistoryStep) -> Bool {
        let itemClass = place.itemClass
        if case .read = step.kind { return itemClass != .private }
        if folder(place.directory).isInternal { return false }
        return itemClass == .document || step.author?.run != nil && itemClass != .private
    }

    /// Whether a file differs from what it was when a program opened it. A file that cannot be examined counts as changed.
    func isChanged(_ place: Place, since baseline: Baseline) -> Bool {
        guard let status = status(of: place) else { return true }
        return !baseline.stamp.hasSameContents(as: Stamp(status))
    }

    private func status(of place: Place) -> FileStatus? {
        // A file system that does not answer would block a worker, so only local files are examined.
        guard !place.directory.isDistant else { return nil }
        do throws(Errno) { return try place.directory.status(of: place.name) } catch { return nil }
    }

    /// Makes an event; none if the history has no steps with such files.
    mutating func event(
        _ kind: HistoryKind, _ place: Place, to target: Place? = nil, _ step: HistoryStep,
        rights known: FileRights? = nil, adjust: (inout HistoryEvent) -> Void = { _ in }
    ) -> [HistoryEvent] {
        let isTargetLogged = target.map { isLogged($0, step) } ?? false
        guard isTargetLogged || isLogged(place, step) else { return [] }
        var event = HistoryEvent(kind, place.path, to: target?.path, at: clock.time(of: step.moment))
        event.actor = HistoryActor(
            program: step.author?.program ?? [], process: step.author?.process ?? 0, user: step.user,
            run: step.author?.actor.map { Array($0.utf8) }, runProcess: step.author?.run?.pid,
            runIdentity: step.author?.run.map(HistoryActor.identity))
        if step.author?.passesWaits ?? false { event.detail = HistoryEvent.passesWaits }
        let holder = target ?? place
        event.closed = folder(holder.directory).closed
        if target != nil { event.closed += folder(place.directory).closed }
        if let known {
            event.rights = known
        } else if let status = status(of: holder) {
            event.rights = rights(of: holder, status)
            if status.isRegularFile { event.generation = generation(of: status, after: step, kind) }
        }
        adjust(&event)
        return [event]
    }

    /// Names the contents that a step left; nil if the step is none that leaves contents.
    private func generation(of status: FileStatus, after step: HistoryStep, _ kind: HistoryKind) -> String? {
        switch kind {
        case .written, .created, .moved: break
        default: return nil
        }
        // A program writes a new file after it has made the file, and this gives no second event.
        if case .created = step.kind { return HistoryGeneration.name(of: status) }
        return HistoryGeneration.name(of: status, leftAt: clock.time(of: step.moment))
    }

    /// The rights of a file. If its access control list is not read, only the owner counts.
    private func rights(of place: Place, _ status: FileStatus) -> FileRights {
        // On a mount of one user, only this user and root can ask. For a file of this user, the list does not matter.
        guard isShared || status.user != OwnProcess.user else { return .lastKnown(status) }
        do throws(Errno) {
            let below = try place.directory.descriptor()
            let file = try place.name.withName { (name) throws(Errno) in try below.descriptor.path(of: name) }
            return try FileRights(of: file)
        } catch {
            return .lastKnown(status)
        }
    }
}
