// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// Remembers which programs have seen which generation of a document, so that a program cannot save over contents that it has
/// not seen without a trace (D224, D225).
///
/// A document is remembered from the moment at which a second program meets the notes of the first one, and one of the two
/// writes (``NodeSightings``). Until then an open only makes a note in the node, without a system call or a further lock.
///
/// **Lock rule.** The mutex covers the table and the vacated names. Under it, no system call is made and no other mutex is
/// taken. Programs are identified and files are read before or after that.
final class Sightings: Sendable {
    private struct State {
        var table: SightingTable<FileKey>
        var vacated = VacatedDocuments<EntryName, FileKey>()

        /// Whether the file was a document's file until a moment ago, so that a program that has opened the file at `opened` has
        /// perhaps found it by the document's name.
        func isFormer(_ key: FileKey, at opened: Instant) -> Bool {
            table.wasReplaced(key, at: opened) || vacated.isLeft(key, at: opened)
        }

        /// Notes that an anchor has read a document's former file. Returns whether the file is not remembered itself.
        mutating func noteFormerRead(_ key: FileKey, by anchor: Anchor, at opened: Instant) -> Bool {
            _ = table.noteFormerRead(key, by: anchor, at: opened)
            vacated.noteRead(of: key, by: anchor, at: opened)
            return !table.contains(key)
        }
    }

    let openers: OpenerTable
    private let context: MountContext
    private let epoch: UInt64
    private let state: Mutex<State>
    private let isTableEmpty: Atomic<Bool>
    private let hasVacated = Atomic(false)

    /// Takes the generations that the last daemon has saved. `root` is the root of the source.
    init(_ context: MountContext, below root: FileKey) {
        let saved = SavedSightings(taking: context.store, below: root)
        self.context = context
        openers = OpenerTable(context.processes)
        epoch = saved.epoch
        let table = SightingTable(epoch: saved.epoch, latest: saved.latest, saved: saved.generations)
        isTableEmpty = Atomic(table.isEmpty)
        state = Mutex(State(table: table))
    }

    /// Whether no file is remembered. Then an open needs only the notes in the node.
    var isEmpty: Bool { isTableEmpty.load(ordering: .relaxed) }

    /// Whether a program has just taken a name away from a document.
    var hasVacatedNames: Bool { hasVacated.load(ordering: .relaxed) }

    /// The outer form of a number of this table.
    func outerForm(of number: UInt64) -> Generation { .numbered(epoch: epoch, number: number) }

    /// The number of remembered documents, and the bytes that they take.
    var size: (documents: Int, bytes: Int) { state.withLock { ($0.table.count, $0.table.size) } }

    private func withTable<Result: Sendable>(_ body: (inout SightingTable<FileKey>) -> Result) -> Result {
        state.withLock { state in
            defer { isTableEmpty.store(state.table.isEmpty, ordering: .relaxed) }
            return body(&state.table)
        }
    }

    /// Changes a remembered document. Returns nil if the document is not remembered.
    @discardableResult
    func change<Result: Sendable>(
        _ node: Node, _ body: (inout RememberedDocument, () -> UInt64) -> Result
    ) -> Result? {
        state.withLock { $0.table.change(node.key, body) }
    }

    // MARK: Opens

    /// Called for an open if its note in the node was not enough (``NodeSightings/Outcome``): records the open in the table, or
    /// makes room in the node.
    func noteOpen(_ handle: Handle, _ outcome: NodeSightings.Outcome) {
        let node = handle.node
        if case .crowded = outcome { return replaceReader(of: node, by: handle) }
        if node.isRemembered, noteFormerRead(by: handle) { return }
        guard !isUnknown(node), let stamp = node.presentStatus.map({ Stamp($0) }) else {
            return noteAgain(handle)
        }
        if node.isRemembered, record(handle, as: stamp) { return }
        guard remember(node, stamp) else { return noteAgain(handle) }
        // Another file may have replaced this one since the first look.
        if !record(handle, as: stamp) { _ = noteFormerRead(by: handle) }
    }

    /// Records an open in the table. Returns false if the table does not have the file.
    private func record(_ handle: Handle, as stamp: Stamp) -> Bool {
        guard let opener = openers.opener(process: handle.process) else { return true }
        let node = handle.node
        let note = { [self] (isFinal: Bool) in
            change(node) { document, next in
                guard isFinal || !document.needsRoom(for: opener.anchor) else { return false }
                document.refresh(stamp, next)
                if handle.mayWrite || handle.truncates {
                    document.noteWriter(opener, by: handle.id.rawValue)
                }
                if handle.sightingUse != .writes {
                    document.noteRead(by: opener.anchor, at: handle.opened, isOwn: opener.isAnchor)
                }
                return true
            }
        }
        guard let isNoted = note(false) else { return false }
        if isNoted { return true }
        makeRoom(in: node, for: opener.anchor)
        return note(true) ?? false
    }

    /// Notes the read of a file that another file has replaced since the program looked up its name. The program has read the
    /// former contents, so it must not count as a stranger to the document. Returns false if the file itself is remembered.
    private func noteFormerRead(by handle: Handle) -> Bool {
        let (key, opened) = (handle.node.key, handle.opened)
        guard handle.sightingUse != .writes, state.withLock({ $0.isFormer(key, at: opened) }),
            let opener = openers.opener(process: handle.process)
        else { return false }
        return state.withLock { $0.noteFormerRead(key, by: opener.anchor, at: opened) }
    }

    /// Notes an open in the node, after it was found out that the table does not have the file.
    private func noteAgain(_ handle: Handle) {
        let moment = NodeSightings.moment(of: handle.opened)
        let outcome = handle.node.noteOpen(
            handle.process, at: moment, handle.sightingUse, isTableEmpty: true)
        if case .crowded = outcome { replaceReader(of: handle.node, by: handle) }
    }

    /// Returns whether a file that has a new node is not in the table. Notes this in the node.
    private func isUnknown(_ node: Node) -> Bool {
        guard node.sightings.phase == .unknown, !withTable({ $0.knows(node.key) }) else { return false }
        node.becomeKnown(isRemembered: false)
        return true
    }

    /// Returns whether a program that writes concerns no other program, because the noted programs have ended. Ended programs
    /// cannot save any more, so nothing need be remembered for them.
    private func isAloneNow(_ process: Int32, on node: Node) -> Bool {
        let notes = node.sightings
        guard notes.phase == .unremembered,
            !notes.others(than: process).contains(where: ProcessInspection.exists)
        else { return false }
        node.forgetSightings()
        return true
    }

    /// Remembers the document of a file, if another program than the noted one uses it. Returns whether it is remembered.
    ///
    /// The noted programs are identified now, as far as they still run.
    func remember(_ node: Node, _ stamp: Stamp) -> Bool {
        let notes = node.sightings
        let isKnown = withTable { table in
            if table.contains(node.key) { return true }
            if notes.phase != .unremembered, table.knows(node.key) {
                table.remember(node.key, nil, as: stamp)
                return true
            }
            return false
        }
        if isKnown {
            node.becomeKnown(isRemembered: true)
            return true
        }
        guard notes.phase == .unremembered else {
            // A program that is just opening a replaced file must still note its read.
            if !state.withLock({ $0.isFormer(node.key, at: Engine.now) }) {
                node.becomeKnown(isRemembered: false)
            }
            return false
        }
        let find = { [openers] (note: NodeSightings.Note) in
            openers.opener(process: note.process, notAfter: NodeSightings.instant(of: note.moment))
        }
        let author = find(notes.writer)
        let readers = notes.readers.compactMap { note in
            find(note).map { ($0.anchor, NodeSightings.instant(of: note.moment)) }
        }
        withTable { table in
            table.remember(node.key, author, as: stamp)
            _ = table.change(node.key) { document, _ in
                for (anchor, moment) in readers { document.noteRead(by: anchor, at: moment) }
            }
        }
        node.becomeKnown(isRemembered: true)
        return true
    }

    private func replaceReader(of node: Node, by handle: Handle) {
        let ended = Set(node.sightings.readers.map(\.process).filter { !ProcessInspection.exists($0) })
        node.replaceReader(
            by: NodeSightings.Note(handle.process, at: NodeSightings.moment(of: handle.opened))
        ) { ended.contains($0.process) }
    }

    /// Makes room for a further sighting of the document: asks which of the noted programs have ended.
    private func makeRoom(in node: Node, for anchor: Anchor) {
        let known: [Anchor]? = change(node) { document, _ in
            document.needsRoom(for: anchor) ? document.sightings.map(\.anchor) : nil
        }.flatMap(\.self)
        guard let known else { return }
        let ended = Set(known.filter { !$0.isAlive }.map(\.identity))
        change(node) { document, _ in document.makeRoom { ended.contains($0.identity) } }
    }

    // MARK: Changes

    /// Called before a file is opened to write. Returns nil if no other program is concerned.
    func review(_ handle: Handle) -> ChangeReview? {
        guard handle.isClaimed, handle.process > 0 else { return nil }
        let (node, use) = (handle.node, handle.sightingUse)
        let moment = NodeSightings.moment(of: handle.opened)
        switch node.noteOpen(handle.process, at: moment, use, isTableEmpty: isEmpty) {
        case .alone: return nil
        case .crowded:
            replaceReader(of: node, by: handle)
            return nil
        case .concerned:
            guard !isUnknown(node), !isAloneNow(handle.process, on: node) else {
                noteAgain(handle)
                return nil
            }
            var change = DocumentChange(node: node, process: handle.process, handle: handle.id)
            change.reads = use == .readsAndWrites
            return review(change)
        }
    }

    /// Whether a step by which a program replaces or removes a file may concern another program. `process` finds the program.
    func concerns(_ node: Node, by process: () -> Int32) -> Bool {
        if node.isRemembered { return true }
        let (isEmpty, notes) = (isEmpty, node.sightings)
        guard notes.hasNotes || notes.phase == .unknown && !isEmpty, !isUnknown(node) else { return false }
        let process = process()
        return notes.concerns(process, at: NodeSightings.moment(of: Engine.now), isTableEmpty: isEmpty)
            && !isAloneNow(process, on: node)
    }

    /// Called before a program replaces, removes or changes the contents of a file. Returns nil if no other program is concerned.
    func review(_ change: DocumentChange) -> ChangeReview? {
        let node = change.node
        guard change.process > 0, let status = node.presentStatus, remember(node, Stamp(status)) else {
            return nil
        }
        let opener = openers.opener(process: change.process)
        if let anchor = opener?.anchor { makeRoom(in: node, for: anchor) }
        let now = Engine.now
        let found = self.change(node) { document, next -> (ChangeReview, [Anchor]) in
            document.refresh(Stamp(status), next)
            let view = opener.map { document.view(of: $0, at: now) } ?? .stranger
            if let opener, let handle = change.handle { document.noteWriter(opener, by: handle.rawValue) }
            if let opener, change.reads, !view.isUnseen { document.noteRead(by: opener.anchor, at: now) }
            var (base, written): ([UInt8]?, [UInt8]?) = (nil, nil)
            if case .unseen(let since) = view, let anchor = opener?.anchor {
                base = document.base(of: since.number)
                written = document.written(by: anchor, since: since.number)
            }
            let review = ChangeReview(
                node: node, opener: opener, handle: change.handle, view: view,
                generation: document.generation, author: document.author, base: base, written: written)
            return (review, document.hasBase ? [] : document.holders(besides: opener?.anchor))
        }
        guard let (found, holders) = found else { return nil }
        var review = found
        review.needsBase = status.size > 0 && holders.contains(where: \.isAlive)
        return review
    }

    /// Notes that a program has read the document by a handle that it also writes to.
    func noteRead(by handle: Handle) {
        guard let opener = openers.opener(process: handle.process) else { return }
        change(handle.node) { document, _ in document.noteRead(by: opener.anchor, at: Engine.now) }
    }

    /// Called when a file was not opened after its review. Returns the suspicions of a program that does not write the file.
    func noteUnopened(_ handle: Handle) -> [Suspicion] {
        change(handle.node) { document, _ in
            guard let opener = document.removeWriter(handle.id.rawValue),
                !document.isWritten(by: opener.anchor)
            else { return [] }
            return document.takeSuspicions(of: opener.anchor)
        } ?? []
    }

    /// Called at a close(2) beside other writers, before it returns: notes the change as one of the closing program (D231). The
    /// RELEASE request comes later, perhaps after the program's next open.
    func noteLeft(by handle: Handle, as stamp: Stamp) {
        change(handle.node) { document, next in
            guard let writer = document.writer(handle.id.rawValue),
                !document.stamp.hasSameContents(as: stamp)
            else { return }
            document.raise(to: next(), by: writer, as: stamp)
        }
    }

    /// Called when a handle is closed. Raises the generation if the program has written. Returns the suspicions that the
    /// program's contents now decide.
    ///
    /// `isMerged`: whether the document will be merged. Then the last close of the program decides.
    func noteClosed(_ handle: Handle, isMerged: Bool) -> [Suspicion] {
        let node = handle.node
        // A program may only have set the times, which makes no new generation.
        let isDoubtful = handle.baseline?.isRacy ?? true || handle.hasUnseenStores
        let hasWritten = handle.truncates || handle.hasWritten || isDoubtful && handle.mayHaveWritten
        let id = handle.id.rawValue
        let known = change(node) { document, _ in document.writer(id) }.flatMap(\.self)
        let opener = known ?? openers.opener(process: handle.process, notAfter: handle.opened)
        let status = node.presentStatus
        return change(node) { document, next in
            // The writer leaves in the same step in which the generation gets its author. Between two steps, the change would seem
            // to be that of the writers that are left.
            _ = document.removeWriter(id)
            guard let status else { return [] }
            if hasWritten || !document.stamp.hasSameContents(as: Stamp(status)) {
                document.raise(to: next(), by: opener, as: Stamp(status))
            }
            guard let opener, !isMerged || !document.isWritten(by: opener.anchor) else { return [] }
            return document.takeSuspicions(of: opener.anchor)
        } ?? []
    }

    /// Called when the size of a file was changed by its path.
    func noteResized(_ review: ChangeReview) -> [Suspicion] {
        guard let status = review.node.presentStatus else { return [] }
        return change(review.node) { document, next in
            document.raise(to: next(), by: review.opener, as: Stamp(status))
            return review.opener.map { document.takeSuspicions(of: $0.anchor) } ?? []
        } ?? []
    }

    /// Called before and after the times of a file are set. A change until then raises the generation, the new times do not.
    func noteTimes(of node: Node, areSet: Bool) {
        guard node.isRemembered, let status = node.presentStatus else { return }
        change(node) { document, next in
            if areSet { document.restamp(Stamp(status)) } else { document.refresh(Stamp(status), next) }
        }
    }

    /// Called when the daemon has merged the contents `saved` of the last save with other changes. The program of this save has
    /// not seen the merged contents, and goes on from its own.
    func noteMerged(_ node: Node, from saved: [UInt8]) {
        guard let status = node.presentStatus else { return }
        change(node) { document, next in
            document.noteBase(saved)
            document.raise(to: next(), by: nil, as: Stamp(status))
        }
    }

    // MARK: Names

    /// Called when a file was renamed over the document. Returns the suspicions that the new contents decide. `others` are those
    /// of programs that still have the replaced file open.
    func noteReplaced(_ review: ChangeReview, by node: Node) -> (own: [Suspicion], others: [Suspicion]) {
        guard let status = node.presentStatus else { return ([], []) }
        let now = Engine.now
        let suspicions = withTable { table in
            table.replace(review.node.key, by: node.key, at: now) { document, next in
                document.raise(to: next(), by: review.opener, as: Stamp(status))
                let own = review.opener.map { document.takeSuspicions(of: $0.anchor) } ?? []
                let others = document.suspicions
                document.suspicions = []
                document.forgetWriters()
                return (own, others)
            }
        }
        guard let suspicions else {
            review.node.becomeKnown(isRemembered: false)
            return ([], [])
        }
        // The replaced file stays marked as remembered: a program that is just opening it notes its read in the table.
        node.becomeKnown(isRemembered: true)
        return suspicions
    }

    /// Called when two files have exchanged their names. Each document has the other file from now on.
    func noteExchanged(_ review: ChangeReview, with node: Node) -> [Suspicion] {
        guard let status = node.presentStatus, let other = review.node.presentStatus else { return [] }
        let (suspicions, isOther) = withTable { table -> ([Suspicion], Bool) in
            var document = table.remove(review.node.key)
            var former = table.remove(node.key)
            var suspicions: [Suspicion] = []
            let isOther = former != nil
            if document == nil { former?.forgetWriters() }
            document?.exchangeWriters(with: &former)
            if var document {
                document.raise(to: table.next(), by: review.opener, as: Stamp(status))
                suspicions = review.opener.map { document.takeSuspicions(of: $0.anchor) } ?? []
                table.insert(document, at: node.key)
            }
            if var former {
                former.raise(to: table.next(), by: review.opener, as: Stamp(other))
                table.insert(former, at: review.node.key)
            }
            return (suspicions, isOther)
        }
        node.becomeKnown(isRemembered: true)
        review.node.becomeKnown(isRemembered: isOther)
        return suspicions
    }

    /// Called when a program has taken the document's name away, by a rename or a removal. Returns suspicions that no save can
    /// decide any more.
    func noteVacated(_ review: ChangeReview, _ name: EntryName, isLast: Bool) -> VacatedSuspicions {
        let now = Engine.now
        // The file stays marked as remembered: a program that is just opening it notes its read.
        return state.withLock { state in
            var result = VacatedSuspicions(gone: state.vacated.dropOld(at: now))
            defer { hasVacated.store(!state.vacated.isEmpty, ordering: .relaxed) }
            guard var document = state.table[review.node.key] else { return result }
            document.forgetWriters()
            let own = review.opener.map { document.takeSuspicions(of: $0.anchor) } ?? []
            let others = document.suspicions
            document.suspicions = own
            if isLast {
                state.table.remove(review.node.key)
                result.others = others
            } else {
                _ = state.table.change(review.node.key) { document, _ in document.suspicions = others }
            }
            result.crowded = state.vacated.insert(
                document, of: review.node.key, at: name, hasOtherName: !isLast, now: now)
            return result
        }
    }

    /// Called when a file has got a name. If a program has taken this name away from a document a moment before, the file is the
    /// document's file from now on. If it is the same file as before, nothing has changed.
    func noteArrival(
        of node: Node, _ name: NameBytes, in directory: Node
    ) -> (gone: [Suspicion], isFilled: Bool) {
        guard hasVacatedNames else { return ([], false) }
        let now = Engine.now
        let (gone, isFilled) = state.withLock { state -> ([Suspicion], Bool) in
            let gone = state.vacated.dropOld(at: now)
            defer {
                hasVacated.store(!state.vacated.isEmpty, ordering: .relaxed)
                isTableEmpty.store(state.table.isEmpty, ordering: .relaxed)
            }
            guard let vacated = state.vacated.take(EntryName(name, in: directory)) else {
                return (gone, false)
            }
            guard vacated.file != node.key else { return (gone + vacated.document.suspicions, false) }
            state.table.insert(vacated.document, at: node.key)
            state.table.noteReplacement(
                of: vacated.file, containing: vacated.document.present, by: node.key, at: vacated.moment,
                hasOtherName: vacated.hasOtherName)
            return (gone, true)
        }
        if isFilled { node.becomeKnown(isRemembered: true) }
        return (gone, isFilled)
    }

    /// Called when a renamed file has filled a vacated name. Returns the suspicions that the file's contents decide.
    func noteFilled(_ node: Node, byProcess process: Int32) -> [Suspicion] {
        guard node.isRemembered, let status = node.presentStatus else { return [] }
        let opener = openers.opener(process: process)
        return change(node) { document, next in
            document.raise(to: next(), by: opener, as: Stamp(status))
            return opener.map { document.takeSuspicions(of: $0.anchor) } ?? []
        } ?? []
    }

    /// Drops the names that no save has filled in time. Returns their suspicions.
    func dropOldVacated() -> [Suspicion] {
        let now = Engine.now
        return state.withLock { state in
            defer { hasVacated.store(!state.vacated.isEmpty, ordering: .relaxed) }
            return state.vacated.dropOld(at: now)
        }
    }

    // MARK: Generations

    /// Returns the generation of a file.
    func generation(of node: Node) throws(Errno) -> Generation {
        let status = try node.descriptor().descriptor.status()
        let stamp = Stamp(status)
        if !isEmpty { _ = remember(node, stamp, onlyIfKnown: true) }
        let number = change(node) { document, next in
            document.refresh(stamp, next)
            return document.generation
        }
        if let number { return outerForm(of: number) }
        // The next write may leave the same size and time, so a token would not show it. A number does.
        guard context.isTimeRacy(status), status.isRegularFile, rememberAlways(node, stamp) else {
            return Generation(token: status)
        }
        return try self.generation(of: node)
    }

    /// Returns the generation of a file for a program that will compare it later. From now on the document is remembered, even if
    /// only one program uses it. So the error of a failed comparison can name the program that has changed the document.
    func generationToCompare(of node: Node) throws(Errno) -> Generation {
        let status = try node.descriptor().descriptor.status()
        if status.isRegularFile { rememberAlways(node, Stamp(status)) }
        return try generation(of: node)
    }

    /// Notes that a program presents the document. The program's sighting is not dropped while the program runs (D260).
    func notePresenter(of node: Node, process: Int32) {
        guard let status = node.presentStatus, status.isRegularFile,
            let opener = openers.opener(process: process)
        else { return }
        rememberAlways(node, Stamp(status))
        makeRoom(in: node, for: opener.anchor)
        change(node) { document, _ in document.notePresenter(opener.anchor) }
    }

    /// Remembers a document even if only one program uses it. Returns whether it is remembered.
    @discardableResult
    private func rememberAlways(_ node: Node, _ stamp: Stamp) -> Bool {
        // If the node is new, the first call only finds out that the table does not have the file.
        remember(node, stamp) || remember(node, stamp)
    }

    /// Returns whether a file still has a generation. Both forms of a generation are accepted.
    func has(_ node: Node, _ generation: Generation) throws(Errno) -> Bool {
        if case .token = generation {
            let isHidden = change(node) { document, _ in document.hasHiddenChange } ?? false
            if isHidden { return false }
            return try Generation(token: node.descriptor().descriptor.status()) == generation
        }
        return try self.generation(of: node) == generation
    }

    /// Whether a generation was made since the last crash. A token is compared with the file itself, so it is always known.
    func knowsEpoch(of generation: Generation) -> Bool {
        guard case .numbered(let other, _) = generation else { return true }
        return other == epoch
    }

    /// The program that has made the present generation of a file; nil if it is not known.
    func author(of node: Node) -> ProcessDescription? {
        let author: Anchor? = change(node) { document, _ in document.author }.flatMap(\.self)
        return author.map {
            ProcessDescription(pid: $0.process?.number ?? 0, user: $0.user, program: $0.program)
        }
    }

    private func remember(_ node: Node, _ stamp: Stamp, onlyIfKnown: Bool) -> Bool {
        let isKnown = withTable { table in
            guard table.knows(node.key) else { return false }
            table.remember(node.key, nil, as: stamp)
            return true
        }
        if isKnown { node.becomeKnown(isRemembered: true) }
        return isKnown
    }

    /// The generations that are saved at a clean end of the daemon.
    var saved: SavedSightings {
        state.withLock { state in
            SavedSightings(
                epoch: state.table.epoch, latest: state.table.latest,
                generations: Dictionary(
                    uniqueKeysWithValues: state.table.generations.map { ($0.key, $0.generation) }))
        }
    }
}

extension RememberedDocument {
    /// Compares the document with the present size and time of its file. If they differ, the document has a new generation: its
    /// writer has written, or it was changed around the mount.
    mutating func refresh(_ stamp: Stamp, _ next: () -> UInt64) {
        guard !self.stamp.hasSameContents(as: stamp) else { return }
        raise(to: next(), by: onlyWriter, as: stamp)
    }

    mutating func takeSuspicions(of anchor: Anchor) -> [Suspicion] {
        let own = suspicions.filter { $0.saver.identity == anchor.identity }
        if !own.isEmpty { suspicions.removeAll { $0.saver.identity == anchor.identity } }
        return own
    }
}

extension Anchor {
    /// Whether the process of the anchor still exists. A run counts as alive.
    var isAlive: Bool { process.map { ProcessInspection.exists($0.number) } ?? true }
}
