// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import VersionStore

/// Tells the store which documents have other paths, so that their versions follow them (D219).
extension MountContext {
    /// Notes that a document or directory was moved. If the new name is that of a backup, conflict copy or helper file, the
    /// versions stay with the former name, because a program then writes the document there anew.
    func noteVersionMove(from former: NameChange, to change: NameChange, isDirectory: Bool) {
        guard let store, store.hasVersions else { return }
        if !isDirectory {
            guard !change.isPrivate,
                !HelperFileName.isBackupName(change.name.bytes, of: former.name.bytes),
                ConflictCopyName(change.name.bytes)?.document != former.name.bytes
            else { return }
        }
        store.noteMoved(from: former.path, to: change.path, isDirectory: isDirectory)
    }

    /// Notes that two directories, or a file and a directory, have exchanged their names.
    func noteVersionExchange(_ change: NameChange, _ other: NameChange) {
        guard let store, store.hasVersions else { return }
        store.noteExchanged(change.path, other.path)
    }

    /// Notes that a document has its former name again, because the move of its file was a step of a save.
    func noteVersionReturn(from backup: NameChange, to change: NameChange) {
        guard let store, store.hasVersions else { return }
        store.noteMoved(from: backup.path, to: change.path, isDirectory: false)
    }
}

extension NameChange {
    /// The path of the name, from the source's root.
    var path: [UInt8] {
        let folder = directory.path
        return folder.isEmpty ? name.bytes : folder + [UInt8(ascii: "/")] + name.bytes
    }
}
