// SPDX-License-Identifier: Apache-2.0

/// What the name of a helper file says: the kind of helper file, and how certain it is.
package struct HelperFileName: Hashable, Sendable {
    package enum Kind: Hashable, Sendable, CaseIterable {
        /// A file with unsaved text that an editor has open as long as it edits the document.
        case swap
        /// A file that an editor or another program makes to show that it has the document open.
        case lock
        /// A file with the next contents of a document. A program renames it to the document's name to complete a save.
        case temp
        /// A file with the former contents of a document.
        case backup
    }

    /// How certain it is, by the name alone, that a file is a helper file.
    package enum Certainty: Int, Hashable, Comparable, Sendable {
        /// The name alone makes no file a helper file. But if the name contains the name of a document in the same
        /// directory, the file is evidence of a save. For example: `D.r3Fq0a`.
        case besideDocument
        /// People also give such names to documents. The file counts as a helper file only while its maker lives, and
        /// only until another program opens it.
        case whileMakerLives
        /// Every file with such a name is a helper file, because people give no such names to documents.
        case alone

        package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    }

    /// The kind of directory that a file is in. The same name may have another meaning in another kind of directory.
    package enum DirectoryKind: Hashable, Sendable {
        case ordinary
        /// A directory with the name `.git`, or any directory below it.
        case gitDirectory
    }

    package let kind: Kind
    package let certainty: Certainty

    package var isAmbiguous: Bool { certainty != .alone }

    /// Finds the meaning of a name. If several rows of the table fit, the most certain row decides. Returns nil for an
    /// ordinary name.
    ///
    /// A name that is evidence only beside its document (`.besideDocument`) counts as an ordinary name.
    package init?(of name: [UInt8], in place: DirectoryKind = .ordinary) {
        if place == .gitDirectory, NamePattern.gitLock.matches(name) {
            self.init(kind: .lock, certainty: .alone)
        } else if place == .gitDirectory, NamePattern.gitTemp.matches(name) {
            self.init(kind: .temp, certainty: .alone)
        } else if let row = certainNames.first(for: name) ?? passingNames.first(for: name) {
            self = row.meaning
        } else {
            return nil
        }
    }

    /// Returns whether every file with such a name is a helper file. Each open calls this, so to save time only the
    /// rows with `.alone` are compared.
    package static func isUnambiguous(_ name: [UInt8], in place: DirectoryKind = .ordinary) -> Bool {
        if place == .gitDirectory, NamePattern.gitLock.matches(name) || NamePattern.gitTemp.matches(name) {
            return true
        }
        return certainNames.hasRow(for: name)
    }

    fileprivate init(kind: Kind, certainty: Certainty) {
        self.kind = kind
        self.certainty = certainty
    }

    /// Returns the names of the documents to which a helper file with this name may belong. Returns an empty list if
    /// the name contains no document's name.
    package static func documents(for name: [UInt8]) -> [[UInt8]] {
        documents(for: name, accordingTo: helperFileNames)
    }

    /// Returns whether `name` is a name that programs give to a backup of `document`.
    package static func isBackupName(_ name: [UInt8], of document: [UInt8]) -> Bool {
        backupNames.hasRow(for: name, of: document)
    }

    /// Returns the names of documents. A file with this name may have the unsaved or next contents of one of them.
    package static func documentsSaved(by name: [UInt8]) -> [[UInt8]] {
        documents(for: name, accordingTo: contentNames)
    }

    /// Returns whether a file with this name may be the temporary file of any document, because the name contains no
    /// document's name.
    package static func isAnonymousTemp(_ name: [UInt8]) -> Bool {
        contentNames.contains { !$0.pattern.namesDocument && $0.pattern.matches(name) }
    }

    private static func documents(for name: [UInt8], accordingTo rows: [HelperFileNameRow]) -> [[UInt8]] {
        var found: [[UInt8]] = []
        for row in rows {
            for document in row.pattern.documents(in: name) where !found.contains(document) {
                found.append(document)
            }
        }
        return found
    }
}

// A log rotation consists of the same steps as a save, but is no save.
extension HelperFileName {
    /// Returns whether `name` is a name that log rotation gives to the log `document`.
    ///
    /// In a rotation, a process renames the log and makes a new file with the old name within a millisecond. A save
    /// does the same. But a rotation counts as a move of the log and the creation of a new file.
    package static func isRotatedLogName(_ name: [UInt8], of document: [UInt8]) -> Bool {
        guard name.count > document.count + 1, name.starts(with: document) else { return false }
        let separator = name[document.count]
        guard separator == UInt8(ascii: ".") || separator == UInt8(ascii: "-") else { return false }
        var rest = name[(document.count + 1)...]
        let compressed = [".gz", ".xz", ".bz2", ".zst"].map { Array($0.utf8) }
        for ending in compressed where rest.suffix(ending.count).elementsEqual(ending) {
            rest = rest.dropLast(ending.count)
        }
        let dateBytes = Array("0123456789-_:T.".utf8)
        return rest.first.map { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } == true
            && rest.allSatisfy(dateBytes.contains)
    }
}

extension NamePattern {
    fileprivate static let gitLock = NamePattern("*.lock")
    /// Objects, packs and indexes of Git, before they have their final names.
    fileprivate static let gitTemp = NamePattern("tmp_*")
}

/// A row of the table of helper file names.
private struct HelperFileNameRow: Sendable {
    let pattern: NamePattern
    let meaning: HelperFileName

    init(_ kind: HelperFileName.Kind, _ certainty: HelperFileName.Certainty, _ pattern: String) {
        self.pattern = NamePattern(pattern)
        meaning = HelperFileName(kind: kind, certainty: certainty)
    }
}

/// The names of helper files of real programs. They come from traces of the programs that the comments in this table
/// list.
///
/// A row with `.alone` turns every file with a fitting name into a helper file. So the name must be one that no user
/// would choose.
private let helperFileNames: [HelperFileNameRow] = [
    // Names that vim and Neovim use. vim makes `4913` to test whether it may create files in the directory.
    HelperFileNameRow(.swap, .alone, ".{D}.sw?"),
    HelperFileNameRow(.swap, .alone, ".{D}.swpx"),
    HelperFileNameRow(.swap, .alone, "{.D}.sw?"),
    HelperFileNameRow(.swap, .alone, ".{D}.un~"),
    HelperFileNameRow(.temp, .alone, "4913"),
    // The names of swap files of Emacs, Kate and joe.
    HelperFileNameRow(.swap, .alone, "#{D}#"),
    HelperFileNameRow(.swap, .alone, ".{D}.kate-swp"),
    HelperFileNameRow(.swap, .alone, "DEADJOE"),

    // The names of lock files. The first is used by Emacs, joe and jed, the second by LibreOffice, the third by GnuPG.
    HelperFileNameRow(.lock, .alone, ".#{D}"),
    HelperFileNameRow(.lock, .alone, ".~lock.{D}#"),
    HelperFileNameRow(.lock, .alone, ".#lk0x*"),
    // The names of lock files of gpg, git and filelock. If the document's name has no extension, the file may be a user's
    // document, such as `Cargo.lock`.
    HelperFileNameRow(.lock, .alone, "{D.}.lock"),
    HelperFileNameRow(.lock, .whileMakerLives, "{D}.lock"),

    // The names of temporary files of GIO (gedit, mousepad, pluma, geany, GIMP), libgsf (abiword, gnumeric) and LibreOffice.
    HelperFileNameRow(.temp, .alone, ".goutputstream-{R}"),
    HelperFileNameRow(.temp, .alone, ".gsf-save-{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "lu*.tmp"),
    // The names of temporary files of `sed -i`, `perl -i`, `gawk -i inplace` and dos2unix.
    HelperFileNameRow(.temp, .whileMakerLives, "sed{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "XX{R}"),
    HelperFileNameRow(.temp, .alone, "{D}.gawk.{R}"),
    HelperFileNameRow(.temp, .alone, "d2utmp{R}"),
    // The names of temporary files of rsync, unison and syncthing.
    HelperFileNameRow(.temp, .whileMakerLives, ".{D}.{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "{.D}.{R}"),
    HelperFileNameRow(.temp, .alone, ".~tmp~"),
    HelperFileNameRow(.temp, .alone, ".rsync-partial"),
    HelperFileNameRow(.temp, .alone, ".unison.{D}.*.unison.tmp"),
    HelperFileNameRow(.temp, .alone, ".syncthing.{D}.tmp"),
    // The names of temporary files of Kakoune, glib, Qt, patch, mg, busybox sed, exiftool, qpdf, isort and gofmt.
    HelperFileNameRow(.temp, .alone, ".{D}.kak.{R}"),
    HelperFileNameRow(.temp, .besideDocument, "{D}.{R}"),
    HelperFileNameRow(.temp, .besideDocument, "{D}.o{R}"),
    HelperFileNameRow(.temp, .besideDocument, "{D}.r{R}"),
    HelperFileNameRow(.temp, .besideDocument, "{D}.{R}????"),
    HelperFileNameRow(.temp, .besideDocument, "{D}{R}"),
    HelperFileNameRow(.temp, .alone, "{D}_exiftool_tmp"),
    HelperFileNameRow(.temp, .alone, "{D}.~qpdf-temp#"),
    HelperFileNameRow(.temp, .whileMakerLives, "{D}.isorted"),
    HelperFileNameRow(.temp, .besideDocument, "{D}.{N}"),
    // Names that many programs give to temporary files.
    HelperFileNameRow(.temp, .whileMakerLives, "{D}.tmp"),
    HelperFileNameRow(.temp, .whileMakerLives, "{D}.tmp*"),
    HelperFileNameRow(.temp, .whileMakerLives, "{D}.new"),
    HelperFileNameRow(.temp, .whileMakerLives, "tmp*"),
    // The names of temporary files of zip, binutils, `ln -f`, rustc, go, dpkg, VS Code and JetBrains editors.
    HelperFileNameRow(.temp, .whileMakerLives, "zi{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "st{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "Cu{R}"),
    HelperFileNameRow(.temp, .whileMakerLives, "rmeta{R}"),
    HelperFileNameRow(.temp, .alone, "{D}-go-tmp-umask"),
    HelperFileNameRow(.temp, .alone, "{D}.dpkg-new"),
    HelperFileNameRow(.temp, .alone, "{D}.vsctmp"),
    HelperFileNameRow(.temp, .alone, "{D}___jb_tmp___"),

    // The names of backups. Many programs use the first two: Emacs, vim, nano and `cp -b`.
    HelperFileNameRow(.backup, .alone, "{D}~"),
    HelperFileNameRow(.backup, .alone, "{D}.~{N}~"),
    HelperFileNameRow(.backup, .whileMakerLives, "{D}.bak"),
    HelperFileNameRow(.backup, .whileMakerLives, "{D}.orig"),
    HelperFileNameRow(.backup, .whileMakerLives, "{D}_original"),
    HelperFileNameRow(.backup, .alone, "{D}.~qpdf-orig*"),
    HelperFileNameRow(.backup, .alone, "{D}.dpkg-old"),
    HelperFileNameRow(.backup, .alone, ".bak.{N}.{D}"),
    HelperFileNameRow(.backup, .alone, "tilde-backup-{R}"),
    HelperFileNameRow(.backup, .alone, "{D}___jb_old___"),
    HelperFileNameRow(.backup, .besideDocument, "{D}.{N}"),
    // The first of these names is used by Helix for backups.
    HelperFileNameRow(.backup, .besideDocument, "{D}{R}.bck"),
    HelperFileNameRow(.backup, .whileMakerLives, "{D}.rej"),
]

/// The rows for files that may have a document's unsaved contents or next contents.
private let contentNames = helperFileNames.filter { $0.meaning.kind == .temp || $0.meaning.kind == .swap }

/// The rows with names that only helper files have.
private let certainNames = table { $0.certainty == .alone }

/// The rows with names that people also give to documents.
private let passingNames = table { $0.certainty == .whileMakerLives }

private let backupNames = table { $0.kind == .backup }

private func table(where isPart: (HelperFileName) -> Bool) -> NameTable<HelperFileNameRow> {
    NameTable(helperFileNames.filter { isPart($0.meaning) }) { $0.pattern }
}
