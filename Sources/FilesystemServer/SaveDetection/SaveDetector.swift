// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Decides whether an operation on a document is a save, or is a move, deletion or replacement. Decides this at the
/// time of the operation.
///
/// The detector remembers which process made each file, and follows files through renames. In doubt it reports an
/// *update*. This does little harm: a presenter reads the file again after an update, but would close the user's window
/// after a deletion.
package struct SaveDetector: Sendable {
    private var files = CreatedFiles()
    private let programs: ProgramClasses

    package init(knowing programs: ProgramClasses) { self.programs = programs }

    /// The number of files with a remembered maker.
    package var count: Int { files.count }

    /// Notes that a process has created a file under a new name.
    ///
    /// This is called for every CREATE. If the file is later renamed over another file, its maker shows whether that is
    /// a save.
    package mutating func noteCreated(
        _ name: [UInt8], in directory: NodeNumber, node: NodeNumber, by saver: SavingProcess, at now: Instant
    ) {
        files.insert(CreatedFile(node: node, directory: directory, name: name, saver: saver, used: now))
    }

    /// Notes that a writer has closed a file.
    package mutating func noteClosed(_ node: NodeNumber, at now: Instant) {
        files.update(node) { $0.used = now }
    }

    /// Notes that a file was renamed.
    ///
    /// The file itself is followed, whatever names it gets. For example, a temporary file is renamed from `.D.q3Fa91`
    /// to `.~tmp~/D`, and then to D.
    package mutating func noteRenamed(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, at now: Instant
    ) {
        files.move(node, to: name, in: directory, at: now)
    }

    /// Forgets a file, because it is gone or has become the document.
    package mutating func forget(_ node: NodeNumber) { files.remove(node) }

    /// Returns other processes that made helper files for the same save of a document as the saver. If one of them
    /// still lives, an operation of the saver on the document is part of the save.
    ///
    /// The caller then checks which of these processes still live.
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
    /// For a short time, the files that it made still count as part of a save, because a sibling process may finish the
    /// save.
    package mutating func noteExited(_ process: ProcessID) { files.makerExited(process) }
}

// These functions recognise a step of a save after which the document's name is missing for a moment.
extension SaveDetector {
    /// Returns the evidence that a rename of a document begins a save. Other programs then wait for the
    /// document's name. Returns nil if there is no evidence.
    ///
    /// `isAnswering`: whether the process must answer a question as a presenter of the document, most likely the
    /// question to save it.
    ///
    /// `mayBeSaved`: whether the rename itself may count as evidence.
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

    /// Returns the evidence that the unlink of a document begins a save. Other programs then wait for the
    /// document's name. Returns nil if there is no evidence.
    package func evidence(
        whenUnlinking name: [UInt8], _ node: NodeNumber, in directory: NodeNumber, isRegularFile: Bool,
        isPresented: Bool = false, isAnswering: Bool = false, mayBeSaved: Bool = false,
        by saver: SavingProcess?,
        program: [UInt8], at now: Instant
    ) -> PendingSave.Evidence? {
        guard isRegularFile, let saver, isDocument(name, node, for: saver) else { return nil }
        if programs.unlinksToCreate(program) { return .program }
        // A program that moves files between file systems unlinks an existing target and creates it again. It also
        // unlinks the moved file itself. For a file that no program presents, no program need wait.
        if isPresented, programs.replacesFromElsewhere(program) { return .program }
        if hasSideFile(for: name, node, in: directory, by: saver, at: now) { return .helperFile }
        return isAnswering ? .presenter : mayBeSaved ? .removal : nil
    }

    /// Returns whether a file is a document and not a helper file. No program waits for the name of a helper file,
    /// because such files come and go all the time.
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
