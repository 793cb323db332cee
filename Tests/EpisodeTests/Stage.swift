// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import CoordinatedFilesystem
import Coordination

extension ProgramClasses {
    static let shipped = ProgramClasses(Rules.shipped.programs)
}

/// A folder, a clock and some programs, so that a test reads like a trace.
struct Stage {
    static let folder = NodeNumber(1)
    static let document = ItemID(7)

    var recogniser = Recogniser(knowing: .shipped)
    var vacancies = VacancyTable()
    var now = Instant(nanoseconds: 1_000_000_000)
    /// What everybody was told so far.
    var told: [String] = []
    private var nodes: [[UInt8]: NodeNumber] = [:]
    private var lastNode: UInt64 = 100

    /// A folder in which these files were before anybody looked.
    init(with names: String...) {
        for name in names { nodes[Array(name.utf8)] = fresh() }
    }

    static func program(_ number: Int32, started: UInt64 = 1, parent: Int32 = 50, session: Int32 = 50)
        -> Actor
    {
        Actor(
            process: ProcessID(number: number, started: started),
            parent: ProcessID(number: parent, started: 1), session: session)
    }

    func node(_ name: String) -> NodeNumber? { nodes[Array(name.utf8)] }

    mutating func wait(_ span: Span) {
        now = now + span
        for vacancy in vacancies.expired(at: now) { tell("gone", vacancy) }
    }

    mutating func create(_ name: String, _ actor: Actor) {
        vacancies.touched(by: actor, at: now)
        let node = fresh()
        let bytes = Array(name.utf8)
        if let fill = vacancies.fills(bytes, in: Self.folder, by: actor) { tell(fill) }
        nodes[bytes] = node
        recogniser.made(bytes, in: Self.folder, node: node, by: actor, at: now)
    }

    mutating func open(_ name: String, _ actor: Actor) { vacancies.touched(by: actor, at: now) }

    mutating func close(_ name: String) {
        if let node = node(name) { recogniser.closed(node, at: now) }
    }

    /// Who must live for an operation of an actor on a document to be a save.
    func makers(_ name: String, _ actor: Actor) -> Set<ProcessID> {
        recogniser.makers(ofSideFilesOf: Array(name.utf8), in: Self.folder, for: actor)
    }

    mutating func unlink(
        _ name: String, _ actor: Actor?, program: String = "vim", isRegularFile: Bool = true,
        isAnswering: Bool = false
    ) {
        let bytes = Array(name.utf8)
        guard let node = nodes.removeValue(forKey: bytes) else { return told.append("no \(name)") }
        if let actor { vacancies.touched(by: actor, at: now) }
        let evidence = recogniser.vacancy(
            whenUnlinking: bytes, node, in: Self.folder, isRegularFile: isRegularFile,
            isAnswering: isAnswering, by: actor, program: Array(program.utf8), at: now)
        recogniser.forget(node)
        open(evidence, bytes, node, actor)
    }

    mutating func rename(
        _ name: String, to newName: String, _ actor: Actor?, isRegularFile: Bool = true,
        isAnswering: Bool = false
    ) {
        let (bytes, newBytes) = (Array(name.utf8), Array(newName.utf8))
        guard let node = nodes.removeValue(forKey: bytes) else { return told.append("no \(name)") }
        if let actor { vacancies.touched(by: actor, at: now) }
        let evidence = recogniser.vacancy(
            whenRenaming: bytes, node, in: Self.folder, to: newBytes, isRegularFile: isRegularFile,
            isAnswering: isAnswering, by: actor, at: now)
        take(newBytes, node, actor)
        open(evidence, bytes, node, actor)
    }

    mutating func exit(_ actor: Actor) {
        recogniser.exited(actor.process)
        for vacancy in vacancies.actorExited(actor.process) { tell("gone", vacancy) }
    }

    private mutating func take(_ name: [UInt8], _ node: NodeNumber, _ actor: Actor?) {
        if nodes[name] == nil {
            recogniser.renamed(node, to: name, in: Self.folder, at: now)
        } else {
            recogniser.forget(node)
        }
        if let vacancy = vacancies.rollsBack(node, to: name, in: Self.folder, by: actor) {
            tell("nothing", vacancy)
        } else if let fill = vacancies.fills(name, in: Self.folder, by: actor) {
            tell(fill)
        }
        nodes[name] = node
    }

    private mutating func open(
        _ evidence: Vacancy.Evidence?, _ name: [UInt8], _ node: NodeNumber, _ actor: Actor?
    ) {
        guard let evidence, let actor else { return }
        let vacancy = Vacancy(
            directory: Self.folder, name: name, document: Self.document, oldNode: node, actor: actor,
            evidence: evidence, opened: now, claim: ClaimID(1))
        told.append(
            vacancies.open(vacancy) ? "vacated \(String(decoding: name, as: UTF8.self))" : "too many")
    }

    private mutating func tell(_ fill: Fill) {
        switch fill {
        case .save(let vacancy): tell("save", vacancy)
        case .change(let vacancy): tell("change", vacancy)
        }
    }

    private mutating func tell(_ what: String, _ vacancy: Vacancy) {
        told.append("\(what) \(String(decoding: vacancy.name, as: UTF8.self))")
    }

    private mutating func fresh() -> NodeNumber {
        lastNode += 1
        return NodeNumber(lastNode)
    }
}
