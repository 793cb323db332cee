// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// If a program changes the source of a mount, the mount shows the change, and presenters get messages about it.
    @Suite struct OutOfBandChangeTests {
        enum Watcher: String {
            case root, user
            /// The daemon runs as root of a user namespace, which has its own limits.
            case container
            /// Which changes are noticed does not depend on the data mode, so each watcher is tested in one mode only.
            static var ofMode: [Watcher] { Lab.isPassthrough ? [root] : [user] }
        }

        @Test(
            "Changes below the mount are soon visible in the mount, and presenters get each change once",
            arguments: Watcher.ofMode)
        func outOfBandChangesAreSeenAndReportedOnce(by watcher: Watcher) throws {
            guard let lab = try run("changes", by: watcher) else { return }
            let document = try notices(in: lab + "/document.told")
            #expect(
                document == [
                    "didChange updating uncoordinated", "didChange updating uncoordinated",
                    "didMove forMoving uncoordinated", "didMove forMoving uncoordinated",
                    "didChange forDeleting uncoordinated",
                ])
            let second = try notices(in: lab + "/second.told")
            #expect(second == Array(repeating: "didChange updating uncoordinated", count: 3))
            let place = try notices(in: lab + "/place.told")
            #expect(place.allSatisfy { $0.hasSuffix(" uncoordinated") }, "\(place)")
            #expect(place.contains("subitemDidAppear forReplacing uncoordinated"))
            #expect(place.contains("subitemDidMove forMoving uncoordinated"))
        }

        @Test(
            "A presenter gets moves, deletions and returns of its document when directories are moved below the mount",
            arguments: Watcher.ofMode)
        func presentersFollowDirectoriesThatMoveOutOfBand(by watcher: Watcher) throws {
            guard let lab = try run("directories", by: watcher) else { return }
            let document = try notices(in: lab + "/deep.told")
            #expect(
                document == [
                    "didMove forMoving uncoordinated", "didChange updating uncoordinated",
                    "didMove forMoving uncoordinated", "didChange forDeleting uncoordinated",
                    "didChange updating uncoordinated", "didChange forDeleting uncoordinated",
                    "didChange updating uncoordinated",
                ])
        }

        @Test(
            "A document is followed into directories that were never looked up, but not to its other hard links",
            arguments: Watcher.ofMode)
        func aDocumentIsFollowedIntoUnvisitedDirectories(by watcher: Watcher) throws {
            guard let lab = try run("unseen", by: watcher) else { return }
            let (move, change) = ("didMove forMoving uncoordinated", "didChange updating uncoordinated")
            let deletion = "didChange forDeleting uncoordinated"
            #expect(
                try notices(in: lab + "/document.told") == [move, change, move, change, deletion])
            // A presenter may still get events of files that were made just before it registered.
            #expect(try notices(in: lab + "/third.told").suffix(2) == [move, change])
            let second = try notices(in: lab + "/second.told")
            #expect(second.last == deletion && !second.contains(move), "\(second)")
        }

        @Test(
            "An open for writing never writes to a file that was just renamed to a backup",
            arguments: Watcher.ofMode)
        func anOpenForWritingNeverWritesToAFileJustRenamedToABackup(by watcher: Watcher) throws {
            guard try run("backups", by: watcher) != nil else { return }
        }

        @Test(
            "After a directory is replaced below the mount, names are made and removed only in the new directory",
            arguments: Watcher.ofMode)
        func aReplacedDirectoryReceivesNoChanges(by watcher: Watcher) throws {
            guard try run("successors", by: watcher) != nil else { return }
        }

        @Test(
            "Writes to a replaced document are preserved, even if the new file was moved below the mount just before",
            arguments: Watcher.ofMode)
        func writesToAReplacedDocumentArePreserved(by watcher: Watcher) throws {
            guard try run("newcomers", by: watcher) != nil else { return }
        }

        @Test(
            "Two documents whose files are exchanged below the mount stay two documents, each under its name",
            arguments: Watcher.ofMode)
        func exchangedDocumentsStayTwoDocuments(by watcher: Watcher) throws {
            guard let lab = try run("exchange", by: watcher) else { return }
            for name in ["document", "second"] {
                let told = try notices(in: lab + "/\(name).told")
                #expect(told == Array(repeating: "didChange updating uncoordinated", count: 4))
                let lines = try FileContents.text(of: lab + "/\(name).told").split(separator: "\n")
                #expect(lines.allSatisfy { $0.contains("\"path\":\"\(name)\"") }, "\(lines)")
            }
        }

        @Test(
            "A change below the mount is reported once, even right after a change of the same file through the mount",
            arguments: Watcher.ofMode)
        func anOutOfBandChangeRightAfterAChangeThroughTheMountIsReported(by watcher: Watcher) throws {
            guard let lab = try run("after", by: watcher) else { return }
            let document = try notices(in: lab + "/document.told")
            #expect(
                document == [
                    "didChange forMerging", "didChange updating uncoordinated", "didChange updating",
                    "didChange updating uncoordinated", "didChange updating",
                    "didChange forDeleting uncoordinated",
                ])
        }

        /// With passthrough, the kernel writes to the source's files for a program. The kernel's events about these writes
        /// report this program, and not the daemon, as the writer.
        @Test(
            "None of 1,000 writes, renames and removals through the mount is reported as out of band",
            arguments: Watcher.ofMode)
        func changesThroughTheMountAreNotTakenForOutOfBand(by watcher: Watcher) throws {
            guard let lab = try run("through", by: watcher) else { return }
            let place = try notices(in: lab + "/place.told")
            let uncoordinated = place.filter { $0.hasSuffix(" uncoordinated") }
            print("\(watcher): \(place.count) notices, \(uncoordinated.count) of them uncoordinated")
            #expect(uncoordinated == ["subitemDidAppear forReplacing uncoordinated"])
            #expect(place.count > uncoordinated.count)
        }

        @Test(
            "After the kernel lost events of 10,000 changes, the daemon checks all files again",
            arguments: Watcher.ofMode)
        func afterLostEventsTheDaemonChecksAllFiles(by watcher: Watcher) throws {
            guard let lab = try run("burst", by: watcher) else { return }
            for name in ["document", "missing"] {
                #expect(try notices(in: lab + "/\(name).told") == ["didChange updating uncoordinated"])
            }
            // Programs changed this file through the mount only.
            let second = try notices(in: lab + "/second.told")
            #expect(!second.isEmpty && second.allSatisfy { !$0.contains("uncoordinated") }, "\(second)")
        }

        @Test(
            "A hung file system below does not delay events about other files",
            arguments: Watcher.ofMode)
        func aHungLowerFilesystemDelaysNoEventsAboutOtherFiles(by watcher: Watcher) throws {
            guard let lab = try run("slow", by: watcher) else { return }
            let document = try notices(in: lab + "/document.told")
            #expect(document == Array(repeating: "didChange updating uncoordinated", count: 2))
            #expect(try notices(in: lab + "/file.told") == [])
        }

        @Test(
            "If a directory cannot be watched, `status` says so, and changes in it are visible a second later"
        )
        func withoutAWatchChangesAreVisibleASecondLater() throws {
            guard try run("limit", by: .container) != nil else { return }
        }

        /// Runs a scenario and returns the directory with its output files. Returns nil if the scenario cannot run as this
        /// user.
        private func run(_ scenario: String, by watcher: Watcher) throws -> String? {
            guard geteuid() == 0 else {
                print("only root can act as others: shown by the run as root")
                return nil
            }
            let lab = try Lab.freshDirectory("around")
            if watcher == .user { try Program("chown").run("65534:65534", lab) }
            let data = try Lab.dataPath == .daemon ? "daemon" : "auto"
            let outcome = try Self.scenarios.attempt(
                watcher.rawValue, try Lab.variable("TRUCE_BINARY"), lab, scenario, data)
            print("\(watcher), \(scenario):\n\(outcome.text)")
            let isSuccess = outcome.isSuccess
            #expect(isSuccess, "\(outcome.text)\(outcome.errorText)")
            #expect(outcome.text.contains(watcher == .root ? "noticed by fanotify" : "noticed by inotify"))
            #expect(try !MountedDirectory.isMounted(lab + "/place"))
            return lab
        }

        /// The events of a presenter, each with its message, its operation, and whether it was uncoordinated.
        private func notices(in file: String) throws -> [String] {
            try FileContents.text(of: file).split(separator: "\n").compactMap { line in
                guard let message = line.firstMatch(of: /"presenter\/((?:did|subitem)[A-Za-z]*)"/),
                    let operation = line.firstMatch(of: /"operation":"([A-Za-z]*)"/)
                else { return nil }
                let mark = line.contains("\"uncoordinated\":true") ? " uncoordinated" : ""
                return "\(message.1) \(operation.1)\(mark)"
            }
        }
    }
}
