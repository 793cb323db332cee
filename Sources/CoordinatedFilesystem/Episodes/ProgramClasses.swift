// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// What a program's name says about its accesses.
///
/// The name is what `/proc/PID/comm` of the process (not of the thread) holds: the last part of the path
/// it was started by, cut off after 15 bytes. So long names are written here as they arrive, and `git`
/// may come as `git-checkout`.
package enum ProgramClasses {
    /// How the program's reads are treated.
    package static func programClass(of comm: [UInt8]) -> ProgramClass {
        readers.first(for: comm)?.programClass ?? .ordinary
    }

    /// Whether the program replaces a file by unlinking it and creating it again.
    package static func unlinksToCreate(_ comm: [UInt8]) -> Bool {
        unlinkers.hasRow(for: comm)
    }

    /// Whether the program unlinks what it moves something from another file system over, as a file made in `/tmp`, and creates it
    /// again. What it moves there it unlinks as well: of a document that is put to those who show it when the program has ended.
    package static func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { comm == mover }

    /// Whether the program removes files and puts nothing in their place.
    package static func removesFiles(_ comm: [UInt8]) -> Bool { removers.hasRow(for: comm) }

    /// Whether the program starts or takes in processes that have nothing to do with each other.
    ///
    /// A process that asked to be given the orphans below itself (`PR_SET_CHILD_SUBREAPER`) can see that of itself
    /// only, so those that do are known by their names.
    package static func adoptsOrphans(_ comm: [UInt8]) -> Bool {
        adopters.hasRow(for: comm)
    }
}

private struct ReaderRow: Sendable {
    let programClass: ProgramClass
    let pattern: NamePattern

    init(_ programClass: ProgramClass, _ pattern: String) {
        self.programClass = programClass
        self.pattern = NamePattern(pattern)
    }
}

private let readers = NameTable([
    // Backup and sync, by the names of their executables.
    ReaderRow(.background, "restic"), ReaderRow(.background, "borg"), ReaderRow(.background, "rsync"),
    ReaderRow(.background, "rclone"), ReaderRow(.background, "syncthing"),
    ReaderRow(.background, "unison"), ReaderRow(.background, "unison-*"),
    // Indexing: mlocate and plocate (`updatedb.plocat`), GNOME's Tracker, KDE's Baloo.
    ReaderRow(.background, "updatedb"), ReaderRow(.background, "updatedb.*"),
    ReaderRow(.background, "tracker*"), ReaderRow(.background, "baloo*"),
    // Language servers and rebuild loops that run under a name of their own, not as `node`.
    ReaderRow(.watcher, "clangd"), ReaderRow(.watcher, "gopls"), ReaderRow(.watcher, "rust-analyzer"),
    ReaderRow(.watcher, "sourcekit-lsp"), ReaderRow(.watcher, "watchexec"), ReaderRow(.watcher, "entr"),
    // Thumbnailers: Xfce's, and GNOME's as far as 15 bytes of their names reach.
    ReaderRow(.watcher, "tumblerd"), ReaderRow(.watcher, "evince-thumbnai"),
    ReaderRow(.watcher, "totem-video-thu"), ReaderRow(.watcher, "gdk-pixbuf-thum"),
    ReaderRow(.watcher, "ffmpegthumbnail"),
]) { $0.pattern }

/// Programs traced to do "UNLINK D; CREATE D" or "UNLINK D; RENAME T to D" for each file they write.
///
/// `mv` is not among them; see ``ProgramClasses/replacesFromElsewhere(_:)``.
private let unlinkers = NameTable([
    // git checkout, restore, stash, merge, rebase, reset, apply; old installations run `git-checkout`.
    "git", "git-*",
    // Extraction: GNU tar and libarchive's, Info-ZIP's.
    "tar", "bsdtar", "unzip", "zip",
    // coreutils; `cp` does so with --remove-destination only, and never unlinks otherwise.
    "install", "cp",
    // gcc's driver runs collect2, which runs one of the linkers; the assembler shares their library.
    "ld", "ld.*", "collect2", "as", "ccache",
    "dpkg", "rustc", "syncthing", "go", "gzip", "xz",
])

private let mover = Array("mv".utf8)

/// What is asked before they remove a file, and not after.
private let removers = NameTable(["rm", "unlink", "find", "shred", "rmdir", "gio", "trash*"])

/// Service managers, and what looks after containers.
private let adopters = NameTable([
    "systemd", "init", "openrc-init", "dinit", "runsvdir", "runsv", "s6-svscan", "s6-supervise",
    "supervisord",
    "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim*",
])
