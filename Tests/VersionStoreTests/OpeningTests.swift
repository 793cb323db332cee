// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

/// What a kill at each instruction leaves, made by hand, and what the next daemon makes of it.
@Suite("Opening a store after a kill (survive a kill at any instruction)")
struct RecoveryTests {
    private let id = "00000000000a0000"

    private func prepared(_ text: String = "old") throws -> Sandbox {
        let sandbox = try Sandbox()
        try sandbox.prepare()
        try sandbox.write(text, to: "a")
        return sandbox
    }

    private func keep(_ sandbox: Sandbox) throws -> KeptID {
        try sandbox.store().keepByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
    }

    @Test("killed between the link and its line: the file gets a line of cause `recovered`")
    func linkWithoutLine() throws {
        let sandbox = try prepared()
        #expect(chmod("\(sandbox.path)/a", 0o644) == 0)
        #expect(link("\(sandbox.path)/a", "\(sandbox.path)/.truce/store/kept/\(id)") == 0)
        for _ in 0..<2 {
            let store = try sandbox.store()
            let entry = try #require(try store.list(under: []).first)
            #expect(entry.id.description == id && entry.cause == .recovered && entry.path == [])
            #expect(entry.size == 3 && entry.time == 10_000_000 && entry.method == .unknown)
            #expect(entry.inode == (try sandbox.status("a").inode))
            // It may have lain in a directory that is closed to others.
            let owner = Reader(user: geteuid(), groups: [getegid()])
            #expect(entry.rights.mayRead(owner))
            for stranger in [Reader(user: 12_345, groups: []), Reader(user: 12_345, groups: owner.groups)] {
                #expect(!entry.rights.mayRead(stranger))
            }
            #expect(try contents(store, entry.id) == "old")
        }
        #expect(try sandbox.text(of: ".truce/store/kept.log").split(separator: "\n").count == 1)
        #expect(sandbox.log.count == 1)
    }

    @Test("killed in the middle of a copy: what is not complete is removed")
    func incompleteCopy() throws {
        let sandbox = try prepared()
        try sandbox.write("ol", to: ".truce/store/kept/\(id).copying")
        let store = try sandbox.store()
        #expect(try sandbox.kept() == [])
        #expect(try store.list(under: []) == [])
    }

    @Test("killed in the middle of a line: it is skipped, and the next one starts anew", arguments: 1...3)
    func tornLine(cut: Int) throws {
        let sandbox = try prepared()
        let first = try keep(sandbox)
        let whole = try sandbox.text(of: ".truce/store/kept.log")
        let torn = [String(whole.prefix(1)), String(whole.prefix(whole.count / 2)), String(whole.dropLast())]
        try sandbox.append(torn[cut - 1], to: ".truce/store/kept.log")
        let second = try keep(sandbox)
        #expect(try sandbox.store().list(under: bytes("a")).map(\.id) == [first, second])
        #expect(sandbox.log.contains { $0.contains("skipped") } == (cut < 3))
    }

    @Test("killed between a line and its newline: the line counts, and its path is not lost")
    func lineWithoutNewline() throws {
        let sandbox = try prepared()
        let id = try keep(sandbox)
        let size = try sandbox.text(of: ".truce/store/kept.log").utf8.count
        #expect(truncate("\(sandbox.path)/.truce/store/kept.log", off_t(size - 1)) == 0)
        #expect(try sandbox.store().list(under: bytes("a")).map(\.id) == [id])
        #expect(try [id, keep(sandbox)] == sandbox.store().list(under: bytes("a")).map(\.id))
        #expect(sandbox.log == [])
    }

    @Test("garbage in the middle of the log costs no other line")
    func garbage() throws {
        let sandbox = try prepared()
        let first = try keep(sandbox)
        try sandbox.append(
            "\n\u{0}\u{0}\n{\"event\":\"later release\"}\nnonsense\n", to: ".truce/store/kept.log")
        let second = try keep(sandbox)
        #expect(try sandbox.store().list(under: []).map(\.id) == [first, second])
        #expect(sandbox.log.contains("kept.log: 3 torn or unknown lines skipped"))
    }

    @Test("killed between the line of a drop and the removal: the file is removed")
    func droppedLineWithFile() throws {
        let sandbox = try prepared()
        let id = try keep(sandbox)
        try sandbox.store().drop(id, reason: "unchanged")
        #expect(link("\(sandbox.path)/a", "\(sandbox.path)/.truce/store/kept/\(id)") == 0)
        let store = try sandbox.store()
        #expect(try sandbox.kept() == [])
        #expect(try store.list(under: []) == [])
    }

    @Test("a kept file that is not there is listed no more, and again when it is back")
    func missingFile() throws {
        let sandbox = try prepared()
        let id = try keep(sandbox)
        let (file, away) = ("\(sandbox.path)/.truce/store/kept/\(id)", "\(sandbox.path)/away")
        #expect(rename(file, away) == 0)
        for _ in 0..<2 { #expect(try sandbox.store().list(under: []) == []) }
        #expect(sandbox.log == ["kept/\(id) is missing", "kept/\(id) is missing"])
        #expect(rename(away, file) == 0)
        let store = try sandbox.store()
        #expect(try store.list(under: bytes("a")).map(\.id) == [id])
        #expect(try contents(store, id) == "old")
    }

    @Test("a file that a former release missed, and took to be dropped, is listed again")
    func missedBefore() throws {
        let sandbox = try prepared()
        let id = try keep(sandbox)
        try sandbox.append(
            "{\"cause\":\"missing\",\"event\":\"dropped\",\"id\":\"\(id)\",\"nanoseconds\":0,\"time\":\"\"}\n",
            to: ".truce/store/kept.log")
        let store = try sandbox.store()
        #expect(try store.list(under: bytes("a")).map(\.id) == [id])
        #expect(try contents(store, id) == "old")
        #expect(sandbox.log == [])
    }

    @Test("of many files that are missing one sentence tells")
    func manyMissing() throws {
        let sandbox = try prepared()
        let ids = [try keep(sandbox), try keep(sandbox), try keep(sandbox)]
        for id in ids.dropFirst() { #expect(unlink("\(sandbox.path)/.truce/store/kept/\(id)") == 0) }
        #expect(try sandbox.store().list(under: []).map(\.id) == [ids[0]])
        #expect(sandbox.log == ["kept/\(ids[1]) is missing, and 1 more"])
    }

    @Test("files that are not the store's are left alone")
    func strangers() throws {
        let sandbox = try prepared()
        try sandbox.write("?", to: ".truce/store/kept/notes.copying")
        try sandbox.prepare()
        #expect(try sandbox.kept() == ["notes.copying"])
        #expect(sandbox.log.count == 1)
    }

    @Test("no symbolic link in the store is followed")
    func plantedLink() throws {
        let sandbox = try prepared()
        #expect(symlink("/etc/hostname", "\(sandbox.path)/.truce/store/kept/\(id)") == 0)
        let store = try sandbox.store()
        var found = try store.find(try #require(KeptID(id)))
        #expect(throws: StoreError.self) { _ = try store.open(&found) }
    }

    /// The child keeps from several threads and kills itself after the twentieth that returned.
    @Test("SIGKILL while keeping: everything acknowledged is listed and reads back")
    func killed() async throws {
        let sandbox = try prepared("precious")
        let path = sandbox.path
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            try keepUntilKilled(in: path)
        }
        let store = try sandbox.store()
        let acknowledged = try sandbox.text(of: "acknowledged").split(separator: "\n").map(String.init)
        #expect(acknowledged.count >= 20)
        let listed = Set(try store.list(under: []).map(\.id.description))
        for text in acknowledged {
            let id = try #require(KeptID(text))
            #expect(listed.contains(text))
            #expect(try contents(store, id) == "precious")
        }
        #expect(try sandbox.kept().count == listed.count)
    }
}

private func keepUntilKilled(in path: String) throws {
    let store = try VersionStore(in: try OwnedDescriptor.openPath(path), log: { _ in })
    let acknowledged = open("\(path)/acknowledged", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    DispatchQueue.concurrentPerform(iterations: 4) { number in
        for count in 0... {
            do {
                let file = OwnedDescriptor(adopting: open("\(path)/a", O_RDWR | O_CLOEXEC))
                let id =
                    number % 2 == 0
                    ? try store.keepByLinking(file, path: bytes("a"), cause: .claim)
                    : try store.keepByCopying(file, path: bytes("a\(number)/\(count)"), cause: .claim)
                let line = bytes("\(id)\n")
                guard write(acknowledged, line, line.count) == line.count else { exit(2) }
                if lseek(acknowledged, 0, SEEK_END) >= 20 * line.count { kill(getpid(), SIGKILL) }
            } catch {
                exit(1)
            }
        }
    }
}

@Suite("Whose .truce it is")
struct ForeignStoreTests {
    @Test("a new one is made, which tells everybody what it is and nothing else, and opened again")
    func made() throws {
        let sandbox = try Sandbox()
        for _ in 0..<2 {
            try sandbox.prepare()
            #expect(try sandbox.status(".truce").mode & 0o777 == 0o755)
            #expect(try sandbox.names(".truce") == [".gitignore", "CACHEDIR.TAG", "README", "store"])
            for name in [".gitignore", "CACHEDIR.TAG", "README"] {
                #expect(try sandbox.status(".truce/\(name)").mode & 0o777 == 0o644)
            }
            #expect(try sandbox.text(of: ".truce/.gitignore") == "*\n")
            #expect(
                try sandbox.text(of: ".truce/CACHEDIR.TAG").hasPrefix(
                    "Signature: 8a477f597d28d172789f06886806bc55\n"))
            #expect(try sandbox.status(".truce/store").mode & 0o777 == 0o700)
            #expect(try sandbox.text(of: ".truce/store/version") == "truce store 1\n")
        }
        #expect(sandbox.log == [])
    }

    @Test(
        "the store of an earlier release is moved to where it does no harm, whatever a kill has left of that")
    func earlier() throws {
        // What was moved already when the daemon was killed.
        for moved in [[], ["kept"], ["kept", "kept.log"]] {
            let sandbox = try Sandbox()
            try sandbox.makeDirectory(".truce")
            if !moved.isEmpty { try sandbox.makeDirectory(".truce/store") }
            let home = { moved.contains($0) ? ".truce/store/" + $0 : ".truce/" + $0 }
            try sandbox.makeDirectory(home("kept"))
            try sandbox.write("truce store 1\n", to: ".truce/version")
            try sandbox.write("old", to: home("kept") + "/00000000000a0000")
            try sandbox.write(
                #"{"cause":"claim","event":"kept","group":0,"id":"00000000000a0000","method":"copy","mode":33188,"#
                    + #""nanoseconds":10000000,"pathBytes":"YQ==","time":"","user":0}"# + "\n",
                to: home("kept.log"))
            try sandbox.write("new", to: "b")
            for count in 1...2 {
                let store = try sandbox.store()
                #expect(try contents(store, try #require(KeptID("00000000000a0000"))) == "old")
                #expect(try store.list(under: bytes("a")).count == 1)
                let path = bytes("b\(count)")
                _ = try store.keepByCopying(try sandbox.file("b"), path: path, cause: .claim)
                #expect(try store.list(under: []).count == 1 + count)
                #expect(throws: StoreError.inUse) { _ = try sandbox.store() }
            }
            #expect(try sandbox.names(".truce") == [".gitignore", "CACHEDIR.TAG", "README", "store"])
            #expect(try sandbox.names(".truce/store") == ["kept", "kept.log", "version"])
            #expect(try sandbox.status(".truce").mode & 0o777 == 0o755)
            #expect(try sandbox.status(".truce/store").mode & 0o777 == 0o700)
            #expect(sandbox.log == [])
        }
    }

    /// An earlier release's, in `.truce` or in the place to which it is moved.
    private func plant(_ id: String, _ text: String, in home: String, of sandbox: Sandbox) throws {
        if !sandbox.exists(home) { try sandbox.makeDirectory(home) }
        try sandbox.makeDirectory(home + "/kept")
        try sandbox.write(text, to: home + "/kept/" + id)
        try sandbox.write(
            #"{"cause":"claim","event":"kept","group":0,"id":"\#(id)","method":"copy","mode":33188,"#
                + #""nanoseconds":10000000,"pathBytes":"YQ==","time":"","user":0}"# + "\n",
            to: home + "/kept.log")
    }

    @Test("what an earlier release kept after a kill in the middle of the move is joined with the rest")
    func inBothPlaces() throws {
        for isMoved in [false, true] {
            let sandbox = try Sandbox()
            try plant("00000000000b0000", "later", in: ".truce", of: sandbox)
            try plant("00000000000a0000", "former", in: ".truce/store", of: sandbox)
            try sandbox.write("truce store 1\n", to: ".truce/version")
            if isMoved {
                // A daemon made it that looked for the log when that was being moved.
                try FileManager.default.removeItem(atPath: "\(sandbox.path)/.truce/kept")
                try sandbox.write("", to: ".truce/kept.log")
            }
            let expected = ["former"] + (isMoved ? [] : ["later"])
            for _ in 0..<2 {
                let store = try sandbox.store()
                let texts = try store.list(under: bytes("a")).map { try contents(store, $0.id) }
                #expect(texts == expected)
            }
            #expect(try sandbox.names(".truce") == [".gitignore", "CACHEDIR.TAG", "README", "store"])
            #expect(try sandbox.names(".truce/store") == ["kept", "kept.log", "version"])
            #expect(sandbox.log == [])
        }
    }

    @Test("a log that another daemon has moved meanwhile is in use, and no other one is made")
    func movedMeanwhile() throws {
        let sandbox = try Sandbox()
        try plant("00000000000a0000", "text", in: ".truce", of: sandbox)
        try sandbox.write("truce store 1\n", to: ".truce/version")
        #expect(throws: StoreError.inUse) {
            _ = try VersionStore(in: try sandbox.root(), log: { _ in }) { _ throws(Errno) in
                mkdir("\(sandbox.path)/.truce/store", 0o700)
                rename("\(sandbox.path)/.truce/kept.log", "\(sandbox.path)/.truce/store/kept.log")
                return true
            }
        }
        #expect(try sandbox.names(".truce") == ["kept", "store", "version"])
        #expect(try sandbox.store().list(under: bytes("a")).count == 1)
    }

    @Test(
        "the store of an earlier release that cannot be moved on a full disk is used where it is",
        .enabled(if: geteuid() == 0, "only root can make a file system"))
    func earlierOnFullDisk() throws {
        let sandbox = try Sandbox()
        try sandbox.makeDirectory("disk")
        let disk = sandbox.path + "/disk"
        // One inode less than a directory more would need.
        try #require(mount("none", disk, "tmpfs", 0, "nr_inodes=6") == 0)
        defer { umount2(disk, Int32(MNT_DETACH)) }
        try sandbox.makeDirectory("disk/.truce")
        try plant("00000000000a0000", "text", in: "disk/.truce", of: sandbox)
        try sandbox.write("truce store 1\n", to: "disk/.truce/version")
        let root = try OwnedDescriptor.openPath(disk)
        func check(isMoved: Bool) throws {
            let store = try VersionStore(in: root, log: { _ in })
            #expect(try contents(store, try #require(KeptID("00000000000a0000"))) == "text")
            #expect(try store.list(under: bytes("a")).count == 1)
            #expect(try sandbox.names("disk/.truce").contains("store") == isMoved)
            #expect(try sandbox.status("disk/.truce").mode & 0o777 == (isMoved ? 0o755 : 0o700))
        }
        try check(isMoved: false)
        try #require(mount("none", disk, "tmpfs", UInt(MS_REMOUNT), "nr_inodes=100") == 0)
        try check(isMoved: true)
    }

    @Test("the store of an earlier release that another daemon uses stays as it is")
    func earlierInUse() throws {
        let sandbox = try Sandbox()
        try sandbox.makeDirectory(".truce")
        try sandbox.makeDirectory(".truce/kept")
        try sandbox.write("truce store 1\n", to: ".truce/version")
        try sandbox.write("", to: ".truce/kept.log")
        let log = OwnedDescriptor(adopting: open("\(sandbox.path)/.truce/kept.log", O_RDWR | O_CLOEXEC))
        #expect(try log.lockAtOnce())
        #expect(throws: StoreError.inUse) { _ = try sandbox.store() }
        #expect(try sandbox.names(".truce").contains("kept.log"))
        log.unlock()
        try sandbox.prepare()
        #expect(try sandbox.names(".truce/store") == ["kept", "kept.log", "version"])
    }

    @Test("a kill before the marker was written leaves a directory that is taken for ours")
    func unfinished() throws {
        let empty = try Sandbox()
        try empty.makeDirectory(".truce")
        try empty.prepare()
        let half = try Sandbox()
        try half.makeDirectory(".truce")
        try half.write("tru", to: ".truce/version.new")
        try half.prepare()
        #expect(try half.text(of: ".truce/store/version") == "truce store 1\n")
        let late = try Sandbox()
        try late.prepare()
        #expect(unlink("\(late.path)/.truce/store/version") == 0)
        #expect(chmod("\(late.path)/.truce", 0o700) == 0)
        #expect(rename("\(late.path)/.truce/README", "\(late.path)/.truce/README.new") == 0)
        try FileManager.default.removeItem(atPath: "\(late.path)/.truce/store/kept")
        try FileManager.default.removeItem(atPath: "\(late.path)/.truce/store/kept.log")
        try late.prepare()
        #expect(try late.names(".truce") == [".gitignore", "CACHEDIR.TAG", "README", "store"])
        #expect(try late.text(of: ".truce/store/version") == "truce store 1\n")
        #expect(late.log == [])
    }

    @Test("everything else of the name is refused, and left as it is")
    func refused() throws {
        let plants: [(String, (Sandbox) throws -> Void)] = [
            ("a file", { try $0.write("x", to: ".truce") }),
            ("a link", { #expect(symlink("/tmp", "\($0.path)/.truce") == 0) }),
            ("open to others", { try $0.makeDirectory(".truce", mode: 0o755) }),
            (
                "without a marker",
                {
                    try $0.makeDirectory(".truce")
                    try $0.write("x", to: ".truce/notes")
                }
            ),
            (
                "with notes of another kind",
                {
                    try $0.makeDirectory(".truce")
                    try $0.write("x", to: ".truce/README")
                }
            ),
            (
                "with a store that is open to others",
                {
                    try $0.prepare()
                    _ = chmod("\($0.path)/.truce/store", 0o750)
                    try FileManager.default.removeItem(atPath: "\($0.path)/.truce/store/kept")
                }
            ),
            (
                "that others may write to",
                {
                    try $0.prepare()
                    _ = chmod("\($0.path)/.truce", 0o775)
                    try FileManager.default.removeItem(atPath: "\($0.path)/.truce/store/kept")
                }
            ),
            (
                "with another marker",
                {
                    try $0.makeDirectory(".truce")
                    try $0.write("truce store 2\n", to: ".truce/version")
                }
            ),
        ]
        for (name, plant) in plants {
            let sandbox = try Sandbox()
            try plant(sandbox)
            let error = try #require(throws: StoreError.self) { _ = try sandbox.store() }
            guard case .foreign = error else {
                Issue.record("\(name): \(error)")
                continue
            }
            #expect(!sandbox.exists(".truce/store/kept"))
        }
    }

    @Test("somebody else's is refused", .enabled(if: geteuid() == 0, "only root can give a directory away"))
    func othersDirectory() throws {
        let sandbox = try Sandbox()
        try sandbox.prepare()
        #expect(chown("\(sandbox.path)/.truce", 4242, 4242) == 0)
        #expect(throws: StoreError.foreign("it belongs to user 4242, not to user 0")) {
            _ = try sandbox.store()
        }
    }

    @Test("two daemons never keep in one store")
    func inUse() throws {
        let sandbox = try Sandbox()
        let first = try sandbox.store()
        #expect(throws: StoreError.inUse) { _ = try sandbox.store() }
        withExtendedLifetime(first) {}
    }

    @Test("a store that was taken away during the wait for its lock is not used")
    func takenAway() throws {
        let sandbox = try Sandbox()
        #expect(throws: StoreError.inUse) {
            _ = try VersionStore(in: try sandbox.root(), log: { _ in }) { _ throws(Errno) in
                unlink("\(sandbox.path)/.truce/store/kept.log")
                return true
            }
        }
    }
}
