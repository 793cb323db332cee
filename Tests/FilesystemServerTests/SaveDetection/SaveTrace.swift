// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import Coordination
import FilesystemServer

extension ProgramClasses {
    static let shipped = ProgramClasses(Rules.shipped.programs)
}

/// A folder, a clock and several programs, all simulated. A test plays the recorded steps of a real program in it.
struct SaveTrace {
    static let folder = NodeNumber(1)
    static let document = ItemID(7)

    var saveDetector = SaveDetector(knowing: .shipped)
    var pendingSaves = PendingSaveTable()
    var now = Instant(nanoseconds: 1_000_000_000)
    /// The texts of the events that the save detector has reported.
    var told: [String] = []
    private var nodes: [[UInt8]: NodeNumber] = [:]
    private var lastNode: UInt64 = 100

    /// Makes a folder that contains these files at the start.
    init(with names: String...) {
        for name in names { nodes[Array(name.utf8)] = fresh() }
    }

    static func program(_ number: Int32, started: UInt64 = 1, parent: Int32 = 50, session: Int32 = 50)
        -> SavingProcess
    {
        SavingProcess(
            process: ProcessID(number: number, started: started),
            parent: ProcessID(number: parent, started: 1), session: session)
    }

    func node(_ name: String) -> NodeNumber? { nodes[Array(name.utf8)] }

    mutating func wait(_ span: TimeSpan) {
        now = now + span
        for pendingSave in pendingSaves.takeExpired(at: now) { tell("gone", pendingSave) }
    }

    mutating func create(_ name: String, _ saver: SavingProcess) {
        pendingSaves.noteActivity(by: saver, at: now)
        let node = fresh()
        let bytes = Array(name.utf8)
        if let fill = pendingSaves.resolveFill(bytes, in: Self.folder, by: saver) { tell(fill) }
        nodes[bytes] = node
        saveDetector.noteCreated(bytes, in: Self.folder, node: node, by: saver, at: now)
    }

    mutating func open(_ name: String, _ saver: SavingProcess) {
        pendingSaves.noteActivity(by: saver, at: now)
    }

    mutating func close(_ name: String) {
        if let node = node(name) { saveDetector.noteClosed(node, at: now) }
    }

    /// The processes that have made helper files of a document. While one of these processes lives, changes that the saver
    /// makes to the document are part of a save.
    func makers(_ name: String, _ saver: SavingProcess) -> Set<ProcessID> {
        saveDetector.makers(ofHelperFilesOf: Array(name.utf8), in: Self.folder, for: saver)
    }

    mutating func unlink(
        _ name: String, _ saver: SavingProcess?, program: String = "vim", isRegularFile: Bool = true,
        isAnswering: Bool = false
    ) {
        let bytes = Array(name.utf8)
        guard let node = nodes.removeValue(forKey: bytes) else { return told.append("no \(name)") }
        if let saver { pendingSaves.noteActivity(by: saver, at: now) }
        let evidence = saveDetector.evidence(
            whenUnlinking: bytes, node, in: Self.folder, isRegularFile: isRegularFile,
            isAnswering: isAnswering, by: saver, program: Array(program.utf8), at: now)
        saveDetector.forget(node)
        open(evidence, bytes, node, saver)
    }

    mutating func rename(
        _ name: String, to newName: String, _ saver: SavingProcess?, isRegularFile: Bool = true,
        isAnswering: Bool = false
    ) {
        let (bytes, newBytes) = (Array(name.utf8), Array(newName.utf8))
        guard let node = nodes.removeValue(forKey: bytes) else { return told.append("no \(name)") }
        if let saver { pendingSaves.noteActivity(by: saver, at: now) }
        let evidence = saveDetector.evidence(
            whenRenaming: bytes, node, in: Self.folder, to: newBytes, isRegularFile: isRegularFile,
            isAnswering: isAnswering, by: saver, at: now)
        take(newBytes, node, saver)
        open(evidence, bytes, node, saver)
    }

    mutating func exit(_ saver: SavingProcess) {
        saveDetector.noteExited(saver.process)
        for pendingSave in pendingSaves.takeExited(saver.process) { tell("gone", pendingSave) }
    }

    private mutating func take(_ name: [UInt8], _ node: NodeNumber, _ saver: SavingProcess?) {
        if nodes[name] == nil {
            saveDetector.noteRenamed(node, to: name, in: Self.folder, at: now)
        } else {
            saveDetector.forget(node)
        }
        if let pendingSave = pendingSaves.resolveRollback(node, to: name, in: Self.folder, by: saver) {
            tell("nothing", pendingSave)
        } else if let fill = pendingSaves.resolveFill(name, in: Self.folder, by: saver) {
            tell(fill)
        }
        nodes[name] = node
    }

    private mutating func open(
        _ evidence: PendingSave.Evidence?, _ name: [UInt8], _ node: NodeNumber, _ saver: SavingProcess?
    ) {
        guard let evidence, let saver else { return }
        let pendingSave = PendingSave(
            directory: Self.folder, name: name, document: Self.document, oldNode: node, saver: saver,
            evidence: evidence, opened: now, claim: ClaimID(1))
        told.append(
            pendingSaves.open(pendingSave) ? "vacated \(String(decoding: name, as: UTF8.self))" : "too many")
    }

    private mutating func tell(_ fill: FillOutcome) {
        switch fill {
        case .save(let pendingSave): tell("save", pendingSave)
        case .change(let pendingSave): tell("change", pendingSave)
        }
    }

    private mutating func tell(_ what: String, _ pendingSave: PendingSave) {
        told.append("\(what) \(String(decoding: pendingSave.name, as: UTF8.self))")
    }

    private mutating func fresh() -> NodeNumber {
        lastNode += 1
        return NodeNumber(lastNode)
    }
}
