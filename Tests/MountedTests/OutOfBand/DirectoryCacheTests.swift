// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// The kernel answers look-ups and listings from its cache. Checks that the cached names and attributes are correct.
    @Suite struct DirectoryCacheTests {
        private static let rounds = 50

        @Test("Repeated listings come from the kernel's cache until a name in the directory changes")
        func aListingIsCachedUntilANameChanges() throws {
            try MountedDirectory.with { mount in
                let place = mount.path + "/place"
                try Script("mkdir \"$1\"; cd \"$1\"; touch a b c; mkdir d").run(place)
                #expect(try Self.names(place) == ["a", "b", "c", "d"])
                let listed = try mount.status().counters.listed
                for _ in 0..<Self.rounds { #expect(try Self.names(place) == ["a", "b", "c", "d"]) }
                #expect(try mount.status().counters.listed == listed, "asked again")
                for (step, names) in [
                    ("touch e", ["a", "b", "c", "d", "e"]), ("mv a x", ["b", "c", "d", "e", "x"]),
                    ("rm b", ["c", "d", "e", "x"]), ("rmdir d", ["c", "e", "x"]),
                    ("ln c y", ["c", "e", "x", "y"]), ("mv x ..", ["c", "e", "y"]),
                    ("mkdir z; ln -s z s", ["c", "e", "s", "y", "z"]),
                ] {
                    try Script("cd \"$1\"; eval \"$2\"").run(place, step)
                    #expect(try Self.names(place) == names, "after \(step)")
                    #expect(try Self.names(place) == names, "the second time after \(step)")
                }
                #expect(try mount.status().counters.listed > listed)
            }
        }

        /// A read changes a file's times. If the kernel noticed this, it would request each file's attributes again.
        @Test(
            "After many files of a directory were opened, the directory is listed again once for their attributes"
        )
        func afterManyOpensTheirDirectoryIsListedAgainOnce() throws {
            try MountedDirectory.with { mount in
                let place = mount.path + "/place"
                try Script("mkdir \"$1\"; cd \"$1\"; touch f{01..20}").run(place)
                func list() throws -> UInt64 {
                    #expect(try Self.names(place).count == 20)
                    return try mount.status().counters.listed
                }
                let listed = try list()
                try Script("cat \"$1\"/f01").run(place)
                #expect(try list() == listed, "for one file")
                try Script("cat \"$1\"/f*").run(place)
                #expect(try list() > listed)
                let again = try list()
                #expect(try list() == again)
            }
        }

        @Test(
            "The next listing shows names that were made around the mount, and lacks names that were removed around it"
        )
        func outOfBandNamesShowInTheNextListing() throws {
            try MountedDirectory.with(prepare: { try Script("mkdir \"$1\"/place").run($0) }) { mount in
                for round in 0..<Self.rounds {
                    try Script("touch \"$1\"").run(mount.below + "/place/\(round)")
                    #expect(try Self.names(mount.path + "/place") == ["\(round)"])
                    try Program("rm").run(mount.below + "/place/\(round)")
                    #expect(try Self.names(mount.path + "/place") == [])
                }
            }
        }

        /// The kernel caches for an hour which file has a name, unless the daemon invalidates the name.
        @Test(
            "After a listing, look-ups find files that replaced other files around the mount",
            arguments: [
                "echo longer >new; mv new f03", "mv f04 new; mv f05 f04; mv new f05", "mv f06 g06",
                "echo longer >f07; touch new", "chmod 600 f08; rm f09",
            ])
        func aListingShowsFilesReplacedOutOfBand(step: String) throws {
            try MountedDirectory.with(prepare: {
                try Script("mkdir \"$1\"/place; cd \"$1\"/place; for i in {01..20}; do echo $i >f$i; done")
                    .run($0)
            }) { mount in
                let (place, below) = (mount.path + "/place", mount.below + "/place")
                #expect(try Self.looks(at: place) == Self.looks(at: below))
                try Script("cd \"$1\"; eval \"$2\"").run(below, step)
                #expect(try Self.names(place) == Self.names(below))
                let (found, expected) = (try Self.looks(at: place), try Self.looks(at: below))
                #expect(found == expected)
            }
        }

        /// The kernel notices changed names only by the attributes of their directory, which opendir(3) reads.
        @Test("readdir without a look-up of the directory before it shows the present names")
        func readdirWithoutALookupShowsPresentNames() throws {
            try MountedDirectory.with(prepare: { try Script("mkdir \"$1\"/place").run($0) }) { mount in
                let read = try Program("python3").run(
                    "-c",
                    """
                    import ctypes, os, sys
                    libc, page = ctypes.CDLL(None), ctypes.create_string_buffer(4096)
                    def is_listed(place, name):
                        descriptor, found = os.open(place, os.O_RDONLY | os.O_DIRECTORY), False
                        while (count := libc.getdents64(descriptor, page, 4096)) > 0:
                            found = found or name.encode() in page.raw[:count]
                        os.close(descriptor)
                        return found
                    for round in range(50):
                        name = f"a-name-{round}-of-many"
                        os.close(os.open(sys.argv[2] + "/" + name, os.O_CREAT | os.O_WRONLY))
                        if not is_listed(sys.argv[1], name): print("missed", name)
                        os.unlink(sys.argv[2] + "/" + name)
                        if is_listed(sys.argv[1], name): print("made up", name)
                    """, mount.path + "/place", mount.below + "/place")
                #expect(read.text == "")
            }
        }

        @Test("Listings while other programs change the directory miss no name that stays")
        func listingsDuringChangesMissNoNameThatStays() throws {
            try MountedDirectory.with { mount in
                let place = mount.path + "/place"
                try Script("mkdir \"$1\"; cd \"$1\"; touch stays-{1..300}").run(place)
                let changer = try Script(
                    """
                    cd "$1"; echo ready
                    while [[ ! -e ../end ]]; do touch comes; mv comes goes; rm goes; done
                    """
                ).start(place)
                try eventually(within: .seconds(20), "the changer to begin") { changer.text == "ready\n" }
                let listers = try (0..<2).map { _ in
                    try Script(
                        "for ((i = 0; i < 100; i++)); do ls \"$1\" | grep --count stays; done | sort --unique"
                    ).start(place)
                }
                for lister in listers { #expect(try lister.wait(within: .seconds(60)).text == "300\n") }
                try Program("touch").run(mount.path + "/end")
                _ = try changer.wait(within: .seconds(20))
                #expect(try Self.names(place).count == 300)
            }
        }

        @Test(
            "A name that was renamed away is not listed while the renaming program lives, until the name comes back"
        )
        func aNameThatWasRenamedAwayIsNotListed() throws {
            try MountedDirectory.with { mount in
                try Script("mkdir \"$1\"; cd \"$1\"; echo one >document; echo two >other").run(
                    mount.path + "/place")
                let place = mount.path + "/place"
                #expect(try Self.names(place) == ["document", "other"])
                let saver = try ScriptedProcess()
                try saver.must("rename", place + "/document", place + "/document~")
                for _ in 0..<3 { #expect(try Self.names(place) == ["document~", "other"]) }
                try saver.must("put", place + "/document", "new")
                #expect(try Self.names(place) == ["document", "document~", "other"])
            }
        }

        @Test(
            "A name that a look-up did not find is found after it was made, through the mount or around it"
        )
        func aMissingNameIsFoundAfterItIsMade() throws {
            try MountedDirectory.with(prepare: { try Script("mkdir \"$1\"/place").run($0) }) { mount in
                for step in [
                    "touch \"$2\"", "mkdir \"$2\"", "ln -s x \"$2\"", "touch \"$1\"; mv \"$1\" \"$2\"",
                ] {
                    let name = mount.path + "/place/name"
                    #expect(access(name, F_OK) != 0 && errno == ENOENT)
                    try Script("eval \"$3\"").run(mount.path + "/from", name, step)
                    var status = stat()
                    #expect(lstat(name, &status) == 0, "after \(step)")
                    try Program("rm").run("-r", name)
                }
                let name = mount.path + "/place/around"
                #expect(access(name, F_OK) != 0 && errno == ENOENT)
                let (_, took) = try timed {
                    try Program("touch").run(mount.below + "/place/around")
                    try eventually(within: .seconds(11), "a name that was made around the mount") {
                        access(name, F_OK) == 0
                    }
                }
                print("a name that was made around the mount was found after \(took)")
            }
        }

        @Test("For a directory with two paths, the kernel does not cache that a name is missing")
        func missingNamesInADirectoryWithTwoPathsAreNotCached() throws {
            guard geteuid() == 0 else { return }
            var second = ""
            defer { Self.detach(second) }
            try MountedDirectory.with(prepare: { source in
                try Script("mkdir \"$1\"/{one,two}; mount --bind \"$1\"/{one,two}").run(source)
                second = source + "/two"
            }) { mount in
                for round in 0..<Self.rounds {
                    #expect(access(mount.path + "/one/\(round)", F_OK) != 0)
                    try Program("touch").run(mount.path + "/two/\(round)")
                    #expect(access(mount.path + "/one/\(round)", F_OK) == 0, "round \(round)")
                }
            }
        }

        private static func detach(_ mountpoint: String) {
            do {
                try Program("umount").run(mountpoint)
            } catch {
                Issue.record("\(error)")
            }
        }

        private static func looks(at directory: String) throws -> String {
            try Script("cd \"$1\"; stat --format='%n %s %F %a %i' *; tail -n +1 *").run(directory).text
        }

        private static func names(_ directory: String) throws -> [String] {
            try Program("ls").run("-A", directory).text.split(separator: "\n").map(String.init)
        }
    }
}
