// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

@Suite("Watches of directories for changes")
struct ChangeWatchTests {
    @Test("A watch reports each creation, write, rename and removal in the directory with the name")
    func eachChangeOfANameIsReported() throws {
        try Folder.with { folder in
            let watch = try ChangeWatch()
            #expect(watch.kind == .inotify)
            let number = try watch.add(folder.descriptor())
            try folder.write("file", "text")
            #expect(try told(by: watch, number) == ["file": [.appeared, .written, .closed]])
            try folder.write("file", "text")
            #expect(try told(by: watch, number) == ["file": [.written, .closed]])
            chmod(folder["file"], 0o600)
            #expect(try told(by: watch, number) == ["file": [.attributes]])
            rename(folder["file"], folder["moved"])
            #expect(try told(by: watch, number) == ["file": [.vanished], "moved": [.appeared]])
            unlink(folder["moved"])
            #expect(try told(by: watch, number) == ["moved": [.vanished]])
            mkdir(folder["directory"], 0o700)
            #expect(try told(by: watch, number) == ["directory": [.appeared, .directory]])
            // This call changes the watched directory itself and no entry of it. So the event contains no name.
            chmod(folder.path, 0o750)
            #expect(try told(by: watch, number) == ["": [.attributes, .directory]])
            close(open(folder["directory"], O_RDONLY | O_DIRECTORY))
            #expect(try told(by: watch, number).isEmpty)
        }
    }

    @Test("A watch reports names as bytes, also names that are not UTF-8 or very long")
    func namesAreReportedAsBytes() throws {
        try Folder.with { folder in
            let watch = try ChangeWatch()
            _ = try watch.add(folder.descriptor())
            for name in [[0xFF, 0x41, 0x0A], [UInt8](repeating: 0x61, count: 255)] {
                let path = Array(folder.path.utf8) + [UInt8(ascii: "/")] + name
                try #require(path.withPath { mkdir($0, 0o700) } == 0)
                #expect(try changes(of: watch).changes.map(\.name) == [name])
                #expect(path.withPath { rmdir($0) } == 0)
                #expect(try changes(of: watch).changes.map(\.name) == [name])
            }
        }
    }

    @Test("A directory has one watch number for as long as the directory is watched")
    func aDirectoryHasOneWatchNumber() throws {
        try Folder.with { folder in
            mkdir(folder["inner"], 0o700)
            let watch = try ChangeWatch()
            let number = try watch.add(folder.descriptor())
            let second = try watch.add(OwnedDescriptor.openDirectory(at: folder["inner"]))
            #expect(number != second)
            #expect(try watch.add(folder.descriptor()) == number)
            try folder.write("inner/file", "text")
            #expect(try told(by: watch, second).keys.sorted() == ["file"])
            watch.remove(number)
            #expect(try changes(of: watch).ended == [number])
            try folder.write("file", "text")
            #expect(try changes(of: watch).changes.isEmpty)
            unlink(folder["inner/file"])
            rmdir(folder["inner"])
            #expect(try changes(of: watch).ended == [second])
        }
    }

    @Test("Without changes, a watch reads nothing, and a wait for changes takes its full time")
    func withoutChangesAWatchReportsNothing() throws {
        try Folder.with { folder in
            let watch = try ChangeWatch()
            _ = try watch.add(folder.descriptor())
            let nothing = try watch.read()
            #expect(nothing.changes.isEmpty && nothing.ended.isEmpty && !nothing.hasOverflowed)
            #expect(!watch.wait(until: 0))
            let end = MonotonicClock.nanoseconds + 20_000_000
            #expect(!watch.wait(until: end))
            #expect(MonotonicClock.nanoseconds >= end)
            try folder.write("file", "text")
            #expect(watch.wait(until: nil))
            #expect(watch.wait(until: 0))
        }
    }

    @Test("A watch reports that the kernel's queue overflowed, and later changes as usual")
    func aQueueOverflowIsReported() throws {
        let limit = try #require(readSmallFile("/proc/sys/fs/inotify/max_queued_events"))
        let most = try #require(Int(String(decoding: limit, as: UTF8.self).filter(\.isNumber)))
        try Folder.with { folder in
            let watch = try ChangeWatch()
            let number = try watch.add(folder.descriptor())
            for _ in 0...most / 2 {
                mkdir(folder["directory"], 0o700)
                rmdir(folder["directory"])
            }
            let all = try changes(of: watch)
            #expect(all.hasOverflowed)
            #expect(all.changes.count == most)
            try folder.write("file", "text")
            #expect(try told(by: watch, number) == ["file": [.appeared, .written, .closed]])
        }
    }

    @Test("Root's watch covers a whole file system, and names the process of each change")
    func rootWatchesAWholeFileSystem() throws {
        try Folder.with { folder in
            let directory = try folder.descriptor()
            let watch: ChangeWatch
            do throws(Errno) {
                watch = try ChangeWatch(fileSystemOf: directory)
            } catch {
                print("no file system can be watched here: \(error)")
                #expect([EPERM, ENODEV, EXDEV, EOPNOTSUPP].contains(error.rawValue))
                return
            }
            #expect(watch.kind == .fanotify)
            try folder.write("file", "text")
            rename(folder["file"], folder["moved"])
            mkdir(folder["inner"], 0o700)
            chmod(folder.path, 0o750)
            let handle = try directory.persistentHandle()
            // The watch also reports changes that other programs make in the same file system. Only changes in the test's
            // directory count.
            let ours = try changes(of: watch).changes.filter { $0.directory == .handle(handle) }
            #expect(ours.allSatisfy { $0.process == getpid() })
            #expect(
                joined(ours) == [
                    "file": [.appeared, .written, .closed, .vanished], "moved": [.appeared],
                    "inner": [.appeared, .directory], "": [.attributes, .directory],
                ])
        }
    }

    /// Reads all changes that the watch has recorded so far.
    private func changes(of watch: ChangeWatch) throws -> ChangeWatch.Changes {
        var all = try watch.read()
        while watch.wait(until: 0) {
            let more = try watch.read()
            all.changes += more.changes
            all.ended += more.ended
            all.hasOverflowed = all.hasOverflowed || more.hasOverflowed
        }
        return all
    }

    private func told(by watch: ChangeWatch, _ number: Int32) throws -> [String: ChangeWatch.ChangeMask] {
        let all = try changes(of: watch)
        #expect(!all.hasOverflowed && all.ended.isEmpty)
        #expect(all.changes.allSatisfy { $0.directory == .watch(number) && $0.process == 0 })
        return joined(all.changes)
    }

    private func joined(_ changes: [ChangeWatch.Change]) -> [String: ChangeWatch.ChangeMask] {
        changes.reduce(into: [:]) {
            $0[String(decoding: $1.name, as: UTF8.self), default: []].formUnion($1.mask)
        }
    }
}
