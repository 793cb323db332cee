// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Decides whether an operation is a save, or a move, deletion or replacement, when the operation is made.
///
/// The detector remembers the makers of files, and follows files through renames. In doubt it reports an *update*. A
/// presenter that is told of an update reads the file again; after a deletion it would close the user's window.
package struct SaveDetector: Sendable {
    private var files = CreatedFiles()
    private let programs: ProgramClasses

    package init(knowing programs: ProgramClasses) { self.programs = programs }

    /// The number of files that are remembered.
    package var count: Int { files.count }

    /// Notes that a process has created a file under a new name.
    ///
    /// Call this for every CREATE, whatever the name is. The maker of a file decides what a rename of the file over
    /// another file means.
    package mutating func noteCreated(
        _ name: [UInt8], in directory: NodeNumber, node: NodeNumber, by saver: SavingProcess, at now: Instant
    ) {
        files.insert(CreatedFile(node: node, directory: directory, name: name, saver: saver, used: now))
    }

    /// Notes that a writer has closed a file.
    package mutating func noteClosed(_ node: NodeNumber, at now: Instant) {
        files.update(node) { $0.used = now }
    }

    /// Notes that a file has another name now.
    ///
    /// The file is followed, not its path. For example, `.D.q3Fa91` becomes `.~tmp~/D` and then D.
    package mutating func noteRenamed(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, at now: Instant
    ) {
        files.move(node, to: name, in: directory, at: now)
    }

    /// Forgets a file that is gone, or that was renamed over a document and is the document now.
    package mutating func forget(_ node: NodeNumber) { files.remove(node) }

    /// Returns the processes other than the saver that made helper files of a document in the same save. If these
    /// processes live, an operation on the document is part of a save.
    ///
    /// The caller first checks whether these processes have ended. The saver itself lives.
    package func makers(
        ofHelperFilesOf name: [UInt8], in directory: NodeNumber, for saver: SavingProcess
    ) -> Set<ProcessID> {
        let files = files.helperFiles(of: name, in: directory).filter { file in
            !file.isMakerGone && file.saver.process != saver.process && file.saver.isSameSave(as: saver)
        }
        return Set(files.map(\.saver.process))
    }

    /// Notes that a process has ended.
    ///
    /// The process's files count as part of a save for a short time after their last use, because a sibling may finish
    /// the save.
    package mutating func noteExited(_ process: ProcessID) { files.makerExited(process) }
}

// These functions recognise the steps of a save that make a name missing for a moment.
extension SaveDetector {
    /// Returns the evidence that the rename of a file begins a save, so that programs wait for its name (pattern C).
    /// Returns nil if there is none.
    ///
    /// `isAnswering`: whether the process has a question as a presenter of the document, most likely the question to save
    /// it.
    ///
    /// `mayBeSaved`: whether the rename alone may be the first step of a save.
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

    /// Returns the evidence that the unlink of a file begins a save, so that programs wait for its name (pattern D).
    /// Returns nil if there is none.
    package func evidence(
        whenUnlinking name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, isRegularFile: Bool,
        isPresented: Bool = false, isAnswering: Bool = false, mayBeSaved: Bool = false,
        by saver: SavingProcess?,
        program: [UInt8], at now: Instant
    ) -> PendingSave.Evidence? {
        guard isRegularFile, let saver, isDocument(name, node, for: saver) else { return nil }
        if programs.unlinksToCreate(program) { return .program }
        // A program that moves a file to another file system also unlinks the source. If no program presents the file,
        // its name may be missing at once.
        if isPresented, programs.replacesFromElsewhere(program) { return .program }
        if hasSideFile(for: name, node, in: directory, by: saver, at: now) { return .helperFile }
        return isAnswering ? .presenter : mayBeSaved ? .removal : nil
    }

    /// Returns whether a file is a document. No program waits for the names of helper files, which come and go all the
    /// time.
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
