// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Tells saves from moves, deletions and replacements, at the moment of the operation.
///
/// It remembers the makers of files, follows files through renames, and answers from that memory. In doubt it reports
/// an *update*: a presenter that is told of a change reads again, but after a deletion it closes the user's window.
package struct SaveDetector: Sendable {
    private var files = CreatedFiles()
    private let programs: ProgramClasses

    package init(knowing programs: ProgramClasses) { self.programs = programs }

    /// How many files are remembered.
    package var count: Int { files.count }

    /// A process has created a file: the name is new in the directory.
    ///
    /// Call it for every CREATE, whatever the name: the origin of a file decides the meaning of its rename over another
    /// file.
    package mutating func noteCreated(
        _ name: [UInt8], in directory: NodeNumber, node: NodeNumber, by saver: SavingProcess, at now: Instant
    ) {
        files.insert(CreatedFile(node: node, directory: directory, name: name, saver: saver, used: now))
    }

    /// A writer has closed a file.
    package mutating func noteClosed(_ node: NodeNumber, at now: Instant) {
        files.update(node) { $0.used = now }
    }

    /// A file has another name now.
    ///
    /// Follows the file and not its path: `.D.q3Fa91` becomes `.~tmp~/D` and then D.
    package mutating func noteRenamed(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, at now: Instant
    ) {
        files.move(node, to: name, in: directory, at: now)
    }

    /// The file is gone, or has been renamed over a document and is the document now.
    package mutating func forget(_ node: NodeNumber) { files.remove(node) }

    /// The other makers of files that make an operation on a document a save, if they live. Check them for exit first.
    ///
    /// The saver itself lives.
    package func makers(
        ofHelperFilesOf name: [UInt8], in directory: NodeNumber, for saver: SavingProcess
    ) -> Set<ProcessID> {
        let files = files.helperFiles(of: name, in: directory).filter { file in
            !file.isMakerGone && file.saver.process != saver.process && file.saver.isSameSave(as: saver)
        }
        return Set(files.map(\.saver.process))
    }

    /// A process ended.
    ///
    /// Its files count for a short time after their last use, for siblings that finish its save.
    package mutating func noteExited(_ process: ProcessID) { files.makerExited(process) }
}

// Steps that vacate a name for a moment only.
extension SaveDetector {
    /// Pattern C: whether renaming a file away begins a save, so that its name waits to be filled.
    ///
    /// `isAnswering`: the process has a question as a presenter of the document, most likely to save it. `mayBeSaved`:
    /// the step alone may mean a save.
    package func evidence(
        whenRenaming name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, to newName: [UInt8],
        isRegularFile: Bool, isAnswering: Bool = false, mayBeSaved: Bool = false, by saver: SavingProcess?,
        at now: Instant
    ) -> PendingSave.Evidence? {
        guard isRegularFile, let saver, isDocument(name, node, for: saver) else { return nil }
        if HelperFileName.isRotatedLogName(newName, of: name) { return nil }
        if HelperFileName.isBackupName(newName, of: name) { return .backupName }
        if hasSideFile(for: name, node, in: directory, by: saver, at: now) { return .helperFile }
        return isAnswering ? .presenter : mayBeSaved ? .move : nil
    }

    /// Pattern D: whether unlinking a file begins a save, so that its name waits to be filled.
    package func evidence(
        whenUnlinking name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, isRegularFile: Bool,
        isPresented: Bool = false, isAnswering: Bool = false, mayBeSaved: Bool = false,
        by saver: SavingProcess?,
        program: [UInt8], at now: Instant
    ) -> PendingSave.Evidence? {
        guard isRegularFile, let saver, isDocument(name, node, for: saver) else { return nil }
        if programs.unlinksToCreate(program) { return .program }
        // Without presenters, a document that is moved away is better gone at once.
        if isPresented, programs.replacesFromElsewhere(program) { return .program }
        if hasSideFile(for: name, node, in: directory, by: saver, at: now) { return .helperFile }
        return isAnswering ? .presenter : mayBeSaved ? .removal : nil
    }

    /// Whether the file is a document. Helper files come and go all the time, and no program waits for their names.
    private func isDocument(_ name: [UInt8], _ node: NodeNumber, for saver: SavingProcess) -> Bool {
        guard let side = HelperFileName(of: name) else { return true }
        guard side.isAmbiguous else { return false }
        return !(files[node]?.saver.isSameSave(as: saver) ?? false)
    }

    private func hasSideFile(
        for name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, by saver: SavingProcess,
        at now: Instant
    ) -> Bool {
        files.helperFiles(of: name, in: directory).contains { file in
            file.node != node && file.isEvidence(ofSaving: name, by: saver, at: now)
        }
    }
}
