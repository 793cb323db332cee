// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// What one or more operations on a document come to for everybody else.
package enum EpisodeOutcome: Hashable, Sendable {
    /// The document has new contents; it is the same document.
    case update
    /// Another file has taken the document's name.
    case replacement
    /// The document is as it was.
    case nothing
}

/// Tells saves from moves, deletions and replacements, at the moment of the operation.
///
/// It remembers who made which file, follows files through renames, and answers from that memory. Where
/// it does not know, it says *update*: whoever is told "changed" reads again, whoever is told "deleted"
/// closes the user's window.
package struct Recogniser: Sendable {
    private var files = MadeFiles()

    package init() {}

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

    /// Somebody opened a file.
    ///
    /// If it was not its maker, the file is no program's own any more.
    package mutating func opened(_ node: NodeNumber, by actor: Actor?) {
        files.update(node) { file in
            if actor.map({ !file.actor.isSame(as: $0) }) ?? true { file.isShared = true }
        }
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

    /// Whether a file with an ambiguous side name is still its maker's own: no claims, no versions.
    package func isPrivate(_ node: NodeNumber) -> Bool {
        guard let file = files[node], !file.isMakerGone, !file.isShared else { return false }
        return SideName(of: file.name) != nil
    }

    /// Pattern I: an empty file created and unlinked by one actor, only to see whether it may.
    package func isProbe(unlinking node: NodeNumber, size: UInt64, by actor: Actor?) -> Bool {
        guard size == 0, let actor, let file = files[node] else { return false }
        return file.actor.isSame(as: actor) && !file.isShared
    }
}

// What vacates a name for a moment only.
extension Recogniser {
    /// Pattern C: whether renaming a file away begins a save, so that its name waits to be filled.
    ///
    /// `isAnswering` says that the actor was asked about the document as one who shows it, most likely to
    /// save it.
    package func vacancy(
        whenRenaming name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, to newName: [UInt8],
        isRegularFile: Bool, isAnswering: Bool = false, by actor: Actor?, at now: Instant
    ) -> Vacancy.Evidence? {
        guard isRegularFile, let actor, isDocument(name, node, for: actor) else { return nil }
        if SideName.isRotationShaped(newName, of: name) { return nil }
        if SideName.isBackupShaped(newName, of: name) { return .backupName }
        if hasSideFile(for: name, node, in: directory, by: actor, at: now) { return .sideFile }
        return isAnswering ? .presenter : nil
    }

    /// Pattern D: whether unlinking a file begins a save, so that its name waits to be filled.
    package func vacancy(
        whenUnlinking name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, isRegularFile: Bool,
        isAnswering: Bool = false, by actor: Actor?, program: [UInt8], at now: Instant
    ) -> Vacancy.Evidence? {
        guard isRegularFile, let actor, isDocument(name, node, for: actor) else { return nil }
        if ProgramClasses.unlinksToCreate(program) { return .program }
        if hasSideFile(for: name, node, in: directory, by: actor, at: now) { return .sideFile }
        return isAnswering ? .presenter : nil
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

// What a name becomes when another file takes it.
extension Recogniser {
    /// Pattern B: what renaming a file over a document comes to.
    ///
    /// Decided by where the source comes from. A source made by the actor of the rename is the
    /// document's next contents, also if somebody else has looked into it meanwhile. One that was there
    /// before, or is somebody else's, is another file, unless its name says that it belongs to the
    /// document. A change of type is a replacement always.
    package func kind(
        ofReplacing document: [UInt8], by source: NodeNumber, named sourceName: [UInt8], areSameType: Bool,
        by actor: Actor?, at now: Instant
    ) -> EpisodeOutcome {
        guard areSameType else { return .replacement }
        guard let actor, !SideName.isTempOrSwapShaped(sourceName, of: document) else { return .update }
        guard let file = files[source] else { return .replacement }
        return file.isEvidence(for: actor, at: now) ? .update : .replacement
    }
}
