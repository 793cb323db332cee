// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// Checks each pattern of the names of helper files, for a document named `report.txt`.
@Suite("Names of helper files")
struct HelperFileNameTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let name: String
        let kind: HelperFileName.Kind
        let certainty: HelperFileName.Certainty
        var testDescription: String { name }

        init(_ name: String, _ kind: HelperFileName.Kind, _ certainty: HelperFileName.Certainty = .alone) {
            (self.name, self.kind, self.certainty) = (name, kind, certainty)
        }
    }

    static let onSight: [Row] = [
        Row(".report.txt.swp", .swap), Row(".report.txt.swo", .swap), Row(".report.txt.swpx", .swap),
        Row(".bashrc.swp", .swap), Row(".report.txt.un~", .swap), Row("4913", .temp),
        Row("#report.txt#", .swap), Row(".report.txt.kate-swp", .swap), Row("DEADJOE", .swap),
        Row(".#report.txt", .lock), Row(".~lock.report.txt#", .lock), Row(".#lk0x55d0", .lock),
        Row("report.txt.lock", .lock),
        Row(".goutputstream-H2QK81", .temp), Row(".gsf-save-Q8FD02", .temp),
        Row("report.txt.gawk.Ab12Cd", .temp), Row("d2utmpq3Fa91", .temp), Row(".~tmp~", .temp),
        Row(".rsync-partial", .temp), Row(".report.txt.kak.Ab12Cd", .temp),
        Row("report.txt_exiftool_tmp", .temp), Row("report.txt.~qpdf-temp#", .temp),
        Row(".syncthing.report.txt.tmp", .temp), Row(".unison.report.txt.0a1b.unison.tmp", .temp),
        Row("report.txt-go-tmp-umask", .temp), Row("report.txt.dpkg-new", .temp),
        Row("report.txt.vsctmp", .temp), Row("report.txt___jb_tmp___", .temp),
        Row("report.txt~", .backup), Row("report.txt.~12~", .backup),
        Row("report.txt.~qpdf-orig", .backup), Row("report.txt.dpkg-old", .backup),
        Row(".bak.1.report.txt", .backup), Row("tilde-backup-a1B2c3", .backup),
        Row("report.txt___jb_old___", .backup),
    ]

    static let whileMakerLives: [Row] = [
        Row("Cargo.lock", .lock, .whileMakerLives), Row("lu8871x.tmp", .temp, .whileMakerLives),
        Row("sedq3Fa91", .temp, .whileMakerLives), Row("XXq3Fa91", .temp, .whileMakerLives),
        Row(".report.txt.q3Fa91", .temp, .whileMakerLives), Row("report.txt.tmp", .temp, .whileMakerLives),
        Row("report.txt.new", .temp, .whileMakerLives), Row("report.txt.isorted", .temp, .whileMakerLives),
        Row("ziq3Fa91", .temp, .whileMakerLives), Row("stq3Fa91", .temp, .whileMakerLives),
        Row("tmpk2_x9a1b", .temp, .whileMakerLives), Row("Cuq3Fa91", .temp, .whileMakerLives),
        Row("report.txt.tmp17", .temp, .whileMakerLives), Row("rmetaq3Fa91", .temp, .whileMakerLives),
        Row("report.txt.bak", .backup, .whileMakerLives), Row("report.txt.orig", .backup, .whileMakerLives),
        Row("report.txt_original", .backup, .whileMakerLives),
        Row("report.txt.rej", .backup, .whileMakerLives),
    ]

    @Test(
        "a helper file's name gives the kind of the file, and whether the name alone proves that kind",
        arguments: onSight + whileMakerLives)
    func aHelperFilesNameGivesItsKind(row: Row) throws {
        let side = try #require(HelperFileName(of: bytes(row.name)))
        #expect(side.kind == row.kind)
        #expect(side.certainty == row.certainty)
        #expect(side.isAmbiguous == (row.certainty != .alone))
        #expect(HelperFileName.isUnambiguous(bytes(row.name)) == (row.certainty == .alone))
    }

    @Test(
        "an ordinary name is no helper file",
        arguments: [
            "report.txt", "standard", "sedatives", "stage1.txt", "XXL", "zip", "Cupboard", "4914", "49130",
            "lunch", "d2utmpabc", ".bashrc", ".swp", "a.swp", "#include", "C#", "report.r3Fq0a", "photo.1",
            "photo.123456789", "Makefile", ".gitignore", "lock", ".lock", "~", "new", "bak", "report-journal",
            ".goutputstream-", ".goutputstream-abc", "notes.backup", ".zshrc.backup", "temp", "tm",
        ])
    func anOrdinaryNameIsNoHelperFile(name: String) {
        #expect(HelperFileName(of: bytes(name)) == nil)
    }

    @Test("each lock file below .git is a helper file of git (.git/**/*.lock)")
    func lockFilesBelowDotGitAreHelperFiles() {
        #expect(HelperFileName(of: bytes("index.lock"), in: .gitDirectory)?.isAmbiguous == false)
        #expect(HelperFileName(of: bytes("index.lock"))?.isAmbiguous == true)
        #expect(ItemClass(of: bytes("HEAD.lock"), in: .gitDirectory) == .private)
        #expect(ItemClass(of: bytes("tmp_obj_Xq7sd2"), in: .gitDirectory) == .private)
        #expect(ItemClass(of: bytes("tmp_obj_Xq7sd2")) == .document)
        #expect(ItemClass(of: bytes("Cargo.lock")) == .document)
    }

    @Test(
        "a helper file's name gives the name of its document",
        arguments: [
            (".report.txt.swp", "report.txt"), (".bashrc.swp", ".bashrc"), ("#report.txt#", "report.txt"),
            (".~lock.report.txt#", "report.txt"), ("report.txt~", "report.txt"),
            (".unison.report.txt.0a.unison.tmp", "report.txt"), (".bak.7.report.txt", "report.txt"),
            ("report.txt.r3Fq0a", "report.txt"), ("report.txt3Fq0aZ", "report.txt"),
        ])
    func aHelperFilesNameGivesItsDocument(side: String, document: String) {
        #expect(HelperFileName.documents(for: bytes(side)).contains(bytes(document)))
    }

    @Test("helper files are recognized even if the name of their document is not UTF-8")
    func helperFilesOfANonUTF8DocumentAreRecognized() {
        let document: [UInt8] = [0xFF, 0xFE, 0x2E, 0x74]
        #expect(HelperFileName.documents(for: document + bytes("~")).contains(document))
        #expect(HelperFileName.isBackupName(document + bytes("~"), of: document))
        #expect(!HelperFileName.isBackupName([0xFF, 0xFD, 0x2E, 0x74] + bytes("~"), of: document))
    }

    @Test("the number of documents to which one helper file may belong is limited")
    func oneHelperFileBelongsToALimitedNumberOfDocuments() {
        let name = bytes(String(repeating: "a.tmp", count: 40))
        let perPattern = SaveLimits.candidateDocuments
        #expect(HelperFileName.documents(for: name).count <= 3 * perPattern)
    }

    @Test(
        "a backup name belongs only to the document from whose name it is made",
        arguments: [
            "report.txt~", "report.txt.~3~", "report.txt.bak", "report.txt.orig", "report.txt_original",
            "report.txt.dpkg-old", ".bak.0.report.txt", "tilde-backup-a1B2c3", "report.txt___jb_old___",
            "report.txt.~qpdf-orig", "report.txt.rej", "report.txt.1", "report.txta1B2c3.bck",
        ])
    func aBackupNameBelongsToItsDocumentOnly(name: String) {
        #expect(HelperFileName.isBackupName(bytes(name), of: bytes("report.txt")))
        if !name.hasPrefix("tilde") {
            #expect(!HelperFileName.isBackupName(bytes(name), of: bytes("eport.tx")))
        }
    }

    @Test(
        "a rename to a name that is no backup name does not count as a backup",
        arguments: ["report2.txt", "report.txt", "old", "report.tx"])
    func aRenameToAnOrdinaryNameIsNoBackup(name: String) {
        #expect(!HelperFileName.isBackupName(bytes(name), of: bytes("report.txt")))
    }

    @Test(
        "only temporary and swap files of a document may become its next contents",
        arguments: [
            ("report.txt.r3Fq0a", true), ("report.txt.or3Fq0a", true), ("report.txtr3Fq0a", true),
            ("report.txt.q3Fa91bcDE", true), ("report.txt.1234567890", true), (".report.txt.swp", true),
            ("#report.txt#", true), ("sedq3Fa91", true), ("tmpabcde", true), ("4913", true),
            (".#report.txt", false), ("report.txt~", false), (".other.txt.swp", false), ("other.txt", false),
            ("report.txt", false), (".~lock.report.txt#", false),
        ])
    func onlyTemporaryAndSwapFilesMayBecomeTheNextContents(name: String, expected: Bool) {
        let isOfDocument = HelperFileName.documentsSaved(by: bytes(name)).contains(bytes("report.txt"))
        #expect((isOfDocument || HelperFileName.isAnonymousTemp(bytes(name))) == expected)
    }

    @Test(
        "a rotated log's name is the log's name with a number or a date behind it",
        arguments: [
            ("app.log.1", true), ("app.log.12.gz", true), ("app.log-20260101", true),
            ("app.log.2026-01-01", true), ("app.log-20260101.xz", true), ("app.log.bak", false),
            ("app.log~", false), ("app.log.", false), ("app.log.gz", false), ("app.log", false),
            ("other.log.1", false),
        ])
    func aRotatedLogsNameEndsInANumberOrADate(name: String, expected: Bool) {
        #expect(HelperFileName.isRotatedLogName(bytes(name), of: bytes("app.log")) == expected)
    }
}

@Suite("Classes of files and programs")
struct ItemClassTests {
    @Test(
        "a file's name gives its class: database, log, helper file or document",
        arguments: [
            ("a.sqlite", ItemClass.database), ("a.sqlite3", .database), ("a.db", .database),
            ("a.db-journal", .database), ("a.db-wal", .database), ("places.sqlite-shm", .database),
            ("my-journal", .document), ("app.log", .log), ("app.log.1", .log), ("app.log-20260101", .log),
            ("app.log.2026-01-01", .log), ("catalog", .document), ("report.txt", .document),
            (".report.txt.swp", .private), ("report.txt~", .private), ("report.txt.bak", .document),
            ("a.db~", .private),
        ])
    func aFilesNameGivesItsClass(name: String, expected: ItemClass) {
        #expect(ItemClass(of: bytes(name)) == expected)
    }

    @Test("the headers of SQLite and LMDB databases are recognized, and shorter headers are not")
    func sqliteAndLMDBHeadersAreRecognized() {
        let magic = bytes("SQLite format 3") + [0]
        #expect(ItemClass.isDatabaseHeader(magic))
        #expect(!ItemClass.isDatabaseHeader(Array(magic.dropLast())))
        #expect(!ItemClass.isDatabaseHeader(bytes("SQLite format 3 ")))
        let page: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0]
        let lmdb = page + withUnsafeBytes(of: UInt32(0xBEEF_C0DE)) { Array($0) }
        #expect(ItemClass.isDatabaseHeader(lmdb) == (1.littleEndian == 1))
        #expect(!ItemClass.isDatabaseHeader(page))
        #expect(!ItemClass.isDatabaseHeader([1] + lmdb.dropFirst()))
    }

    @Test("a database's journal, write-ahead log and shared memory are recognized by their names")
    func aDatabasesCompanionFilesAreRecognized() {
        for name in ["History-journal", "History-wal", "History-shm"] {
            #expect(ItemClass.isDatabaseCompanion(bytes(name), of: bytes("History")))
        }
        #expect(!ItemClass.isDatabaseCompanion(bytes("History-wal"), of: bytes("Histor")))
    }

    @Test("background programs and watchers are recognized by the first 15 bytes of their names")
    func backgroundAndWatcherProgramsAreRecognized() {
        let background = [
            "restic", "borg", "updatedb.plocat", "tracker-miner-f", "baloo_file_extr", "duplicity",
            "rdiff-backup",
            "bup", "bup-index", "recollindex",
        ]
        for name in background {
            #expect(ProgramClasses.shipped.programClass(of: bytes(name)) == .background, "\(name)")
        }
        for name in ["gopls", "totem-video-thu"] {
            #expect(ProgramClasses.shipped.programClass(of: bytes(name)) == .watcher, "\(name)")
        }
        for name in ["vim", "cat", "borgmatic", "resticprofile", "tar"] {
            #expect(ProgramClasses.shipped.programClass(of: bytes(name)) == .ordinary, "\(name)")
        }
    }

    @Test("programs that unlink a file before they create it again are recognized by name")
    func programsThatSaveByUnlinkAreRecognized() {
        let programs = [
            "git", "git-checkout", "tar", "unzip", "install", "ld", "ld.bfd", "collect2", "go", "rust-lld",
            "7z",
            "recode", "hx",
        ]
        for name in programs {
            #expect(ProgramClasses.shipped.unlinksToCreate(bytes(name)), "\(name)")
        }
        for name in ["rm", "mv", "gitk", "vim", "ldd", "gofmt", "target"] {
            #expect(!ProgramClasses.shipped.unlinksToCreate(bytes(name)), "\(name)")
        }
        for (name, replaces) in [("mv", true), ("mvn", false), ("git", false)] {
            #expect(ProgramClasses.shipped.replacesFromElsewhere(bytes(name)) == replaces, "\(name)")
        }
    }
}
