// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Tells saves from moves, deletions and replacements, at the moment of the operation.
///
/// It remembers who made which file, follows files through renames, and answers from that memory. Where
/// it does not know, it says *update*: whoever is told "changed" reads again, whoever is told "deleted"
/// closes the user's window.
package struct Recogniser: Sendable {
    private var files = MadeFiles()
    private let programs: ProgramClasses

    package init(knowing programs: ProgramClasses) { self.programs = programs }

    /// How many files are remembered.
    package var count: Int { files.count }

    /// Somebody created a file: the name is new in the directory.
    ///
    /// Tell every CREATE, whatever the name: where a file comes from decides what renaming it over
    /// another comes to.
    package mutating func made(
        _ name: [UInt8], in directory: NodeNumber, node: NodeNumber, by actor: Actor, at now: Instant
    ) {
        files.insert(MadeFile(node: node, directory: directory, name: name, actor: actor, used: now))
    }

    /// Somebody closed a file who could write to it.
    package mutating func closed(_ node: NodeNumber, at now: Instant) {
        files.update(node) { $0.used = now }
    }

    /// A file has another name now.
    ///
    /// Follows the file and not its path: `.D.q3Fa91` becomes `.~tmp~/D` and then D.
    package mutating func renamed(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, at now: Instant
    ) {
        files.move(node, to: name, in: directory, at: now)
    }

    /// The file is gone, or has been renamed over a document and is the document now.
    package mutating func forget(_ node: NodeNumber) { files.remove(node) }

    /// Those who made files that make an operation of an actor on a document a save, if they live: to be asked about first.
    ///
    /// The actor itself does.
    package func makers(
        ofSideFilesOf name: [UInt8], in directory: NodeNumber, for actor: Actor
    ) -> Set<ProcessID> {
        let files = files.sideFiles(of: name, in: directory).filter { file in
            !file.isMakerGone && file.actor.process != actor.process && file.actor.isSame(as: actor)
        }
        return Set(files.map(\.actor.process))
    }

    /// A process ended.
    ///
    /// What it made counts a little longer than it was used, for siblings that finish its save.
    package mutating func exited(_ process: ProcessID) { files.makerExited(process) }
}

// What vacates a name for a moment only.
extension Recogniser {
    /// Pattern C: whether renaming a file away begins a save, so that its name waits to be filled.
    ///
    /// `isAnswering` says that the actor was asked about the document as one who shows it, most likely to
    /// save it; `mayBeSaved` that the step alone may mean a save.
    package func vacancy(
        whenRenaming name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, to newName: [UInt8],
        isRegularFile: Bool, isAnswering: Bool = false, mayBeSaved: Bool = false, by actor: Actor?,
        at now: Instant
    ) -> Vacancy.Evidence? {
        guard isRegularFile, let actor, isDocument(name, node, for: actor) else { return nil }
        if SideName.isRotationShaped(newName, of: name) { return nil }
        if SideName.isBackupShaped(newName, of: name) { return .backupName }
        if hasSideFile(for: name, node, in: directory, by: actor, at: now) { return .sideFile }
        return isAnswering ? .presenter : mayBeSaved ? .move : nil
    }

    /// Pattern D: whether unlinking a file begins a save, so that its name waits to be filled.
    package func vacancy(
        whenUnlinking name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, isRegularFile: Bool,
        isPresented: Bool = false, isAnswering: Bool = false, mayBeSaved: Bool = false, by actor: Actor?,
        program: [UInt8], at now: Instant
    ) -> Vacancy.Evidence? {
        guard isRegularFile, let actor, isDocument(name, node, for: actor) else { return nil }
        if programs.unlinksToCreate(program) { return .program }
        // Where nobody is told, what is moved away is better gone at once.
        if isPresented, programs.replacesFromElsewhere(program) { return .program }
        if hasSideFile(for: name, node, in: directory, by: actor, at: now) { return .sideFile }
        return isAnswering ? .presenter : mayBeSaved ? .removal : nil
    }

    /// Side and lock files are made and removed all the time; nobody waits for their names.
    private func isDocument(_ name: [UInt8], _ node: NodeNumber, for actor: Actor) -> Bool {
        guard let side = SideName(of: name) else { return true }
        guard side.isAmbiguous else { return false }
        return !(files[node]?.actor.isSame(as: actor) ?? false)
    }

    private func hasSideFile(
        for name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, by actor: Actor, at now: Instant
    ) -> Bool {
        files.sideFiles(of: name, in: directory).contains { file in
            file.node != node && file.isEvidence(ofSaving: name, by: actor, at: now)
        }
    }
}
