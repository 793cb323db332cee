// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

@Suite("Watches of files that may not exist yet")
struct FileWatchTests {
    /// The end of a wait that no event ends. It is never reached if the code is right.
    private static var limit: UInt64 { MonotonicClock.nanoseconds + 60_000_000_000 }

    /// Waits for an event, and returns whether it concerns the file. The watch is renewed, as its user does.
    private static func concerns(_ watch: FileWatch) -> Bool {
        watch.wait(until: limit)
        let concerns = watch.takeChanges()
        _ = watch.renew()
        return concerns
    }

    @Test("Each change of a file is reported by an event")
    func eachChangeOfAFileIsReported() throws {
        try Folder.with { folder in
            let watch = try FileWatch(of: [folder["a"]], below: folder.descriptor())
            _ = watch.renew()
            #expect(!watch.takeChanges())
            for change in [
                { try folder.write("a", "text") }, { try folder.write("a", "other text") },
                { chmod(folder["a"], 0o600) }, { rename(folder["a"], folder["b"]) },
                { rename(folder["b"], folder["a"]) }, { unlink(folder["a"]) }, { symlink("b", folder["a"]) },
            ] as [() throws -> Void] {
                try change()
                #expect(Self.concerns(watch))
            }
        }
    }

    @Test("Changes of other names are no changes of the file")
    func otherNamesAreNotReported() throws {
        try Folder.with { folder in
            let watch = try FileWatch(of: [folder["a"]], below: folder.descriptor())
            _ = watch.renew()
            try folder.write("b", "text")
            unlink(folder["b"])
            watch.wait(until: Self.limit)
            #expect(!watch.takeChanges())
        }
    }

    @Test("The directories of a file may be created, renamed and removed")
    func directoriesMayChange() throws {
        try Folder.with { folder in
            let watch = try FileWatch(of: [folder["one/two/a"]], below: folder.descriptor())
            #expect(watch.renew() == .complete)
            mkdir(folder["one"], 0o700)
            #expect(Self.concerns(watch))
            mkdir(folder["one/two"], 0o700)
            #expect(Self.concerns(watch))
            try folder.write("one/two/a", "text")
            #expect(Self.concerns(watch))
            rename(folder["one"], folder["other"])
            #expect(Self.concerns(watch))
            // The directory is not on the path any more, so it is not watched.
            unlink(folder["other/two/a"])
            #expect(!watch.takeChanges())
            rename(folder["other"], folder["one"])
            #expect(Self.concerns(watch))
            rmdir(folder["one/two"])
            #expect(Self.concerns(watch))
            rmdir(folder["one"])
            #expect(Self.concerns(watch))
        }
    }

    @Test("A relative path begins at the given directory, and a directory may be a symbolic link")
    func aRelativePathBeginsAtTheDirectory() throws {
        try Folder.with { folder in
            mkdir(folder["real"], 0o700)
            symlink("real", folder["link"])
            let watch = try FileWatch(of: ["link/a"], below: folder.descriptor())
            #expect(watch.renew() == .complete)
            try folder.write("real/a", "text")
            #expect(Self.concerns(watch))
        }
    }

    @Test("On a file system with changes that are not reported, the coverage is partial")
    func theCoverageOfOtherFileSystemsIsPartial() throws {
        #expect(try FileWatch(of: ["/proc/self/status"], below: .openPath("/")).renew() == .partial)
    }
}
