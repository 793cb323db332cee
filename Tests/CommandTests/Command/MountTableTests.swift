// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Testing

/// Checks how the command reads `/proc/self/mountinfo`, whose format is described in proc_pid_mountinfo(5).
struct MountTableTests {
    static let text = #"""
        22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro
        36 22 98:0 /mnt1 /mnt2 ro,noatime master:1 propagate_from:2 - ext3 /dev/root ro
        40 22 0:44 / /srv/my\040docs\134x\012y rw,nosuid,nodev - fuse.truce /srv/my\040docs rw,user_id=1000
        41 40 0:45 / /srv/my\040docs\134x\012y rw - fuse.truce second rw,user_id=0
        42 22 0:46 / /srv/m rw - fuse.other a\054b rw,user_id=x
        43 22 0:47 /
        x 22 0:47 / /bad rw - tmpfs none rw
        44 22 zero / /bad rw - tmpfs none rw
        """#

    let table = MountTable(parsing: Array(text.utf8))
    static let docs = Array("/srv/my docs\\x\ny".utf8)

    @Test("each field of a mountinfo line is parsed, with any number of optional fields before the dash")
    func eachFieldOfAMountinfoLineIsParsed() throws {
        #expect(table.entries.map(\.id) == [22, 36, 40, 41, 42])
        let second = try #require(table.entry(id: 36))
        #expect(second.parent == 22)
        #expect(second.device == 98 << 8)
        #expect(second.root == Array("/mnt1".utf8))
        #expect(second.mountpoint == Array("/mnt2".utf8))
        #expect(second.options == ["ro", "noatime"])
        #expect(second.type == "ext3")
        #expect(second.fileSystemOptions == ["ro"])
        #expect(!second.isTruce)
        #expect(second.user == nil)
    }

    @Test("octal escapes in paths are decoded")
    func octalEscapesAreDecoded() throws {
        let mount = try #require(table.entry(id: 40))
        #expect(mount.mountpoint == Self.docs)
        #expect(mount.source == Array("/srv/my docs".utf8))
        #expect(mount.isTruce)
        #expect(mount.user == 1000)
        #expect(try #require(table.entry(id: 42)).source == Array("a,b".utf8))
        #expect(table.entry(id: 42)?.user == nil)
    }

    @Test(
        "a backslash without three octal digits is not decoded",
        arguments: [
            (#"a\"#, #"a\"#), (#"a\1"#, #"a\1"#), (#"a\12"#, #"a\12"#), (#"\999"#, #"\999"#), (#"\040"#, " "),
            (#"\777"#, #"\777"#),
        ])
    func aBackslashWithoutThreeOctalDigitsIsNotDecoded(escaped: String, plain: String) throws {
        let line = "1 0 0:1 / /\(escaped) rw - t s rw"
        let entry = try #require(MountTable(parsing: Array(line.utf8)).entries.first)
        #expect(entry.mountpoint == Array("/\(plain)".utf8))
    }

    @Test("of two mounts at one mountpoint, the later is the visible mount")
    func theLaterOfTwoMountsAtOneMountpointIsVisible() {
        #expect(table.top(at: Self.docs)?.id == 41)
        #expect(table.top(at: Array("/srv".utf8)) == nil)
    }

    @Test("a path belongs to the deepest mount above the path; parts of names do not count")
    func aPathBelongsToTheDeepestMountAboveIt() {
        #expect(table.containing(Array("/mnt2/a".utf8))?.id == 36)
        #expect(table.containing(Array("/mnt2".utf8))?.id == 36)
        #expect(table.containing(Array("/mnt22".utf8))?.id == 22)
        #expect(table.containing(Self.docs + Array("/a/b".utf8))?.id == 41)
        #expect(table.containing(Array("/srv/my".utf8))?.id == 22)
    }

    @Test("a mount is hidden after another mount covers the directory that contains it")
    func aMountIsHiddenIfAnotherMountCoversItsDirectory() {
        let table = MountTable(
            parsing: Array(
                #"""
                22 1 254:1 / / rw - ext4 /dev/root rw
                23 22 254:1 / / rw - ext4 /dev/root rw
                36 22 0:40 / /docs/slow rw - fuse.sshfs there: rw
                37 36 0:41 / /docs/slow/in rw - tmpfs none rw
                40 22 0:44 / /docs rw - fuse.truce /docs rw
                41 40 0:45 / /docs/later rw - tmpfs none rw
                """#.utf8))
        #expect(table.containing(Array("/docs/slow/in/a".utf8))?.id == 40)
        #expect(table.top(at: Array("/docs/slow".utf8)) == nil)
        #expect(table.containing(Array("/docs/later/a".utf8))?.id == 41)
        #expect(table.containing(Array("/docss".utf8))?.id == 22)
        #expect(table.top(at: Array("/".utf8))?.id == 22)
        #expect(MountTable(Array(table.entries.dropFirst(2))).top(at: Array("/docs".utf8))?.id == 40)
        #expect(MountTable([]).containing(Array("/docs".utf8)) == nil)
    }

    @Test(
        "a mount of a read-only file system is read-only; other options of the file system do not count for the mount"
    )
    func aMountOfAReadOnlyFileSystemIsReadOnly() throws {
        let mount = try #require(
            MountTable(parsing: Array("1 0 0:1 / / rw,nosuid - t s ro,nodev".utf8)).entries.first)
        #expect(mount.has("ro"))
        #expect(mount.has("nosuid"))
        #expect(!mount.has("nodev"))
    }

    @Test("the mount table of this process is readable and contains a mount at /")
    func theMountTableOfThisProcessHasARoot() throws {
        #expect(try MountTable.current().top(at: Array("/".utf8)) != nil)
    }

    /// The mountpoint of the new mount, from the lists of Truce mounts before and after `fusermount3`. A line has number,
    /// device, mountpoint, source and user.
    private func newMount(
        _ before: [String], _ after: [String], connection: UInt32? = nil
    ) -> [UInt8]? {
        let tables = [before, after].map { lines in
            let text = lines.map { line in
                let words = line.split(separator: " ")
                return
                    "\(words[0]) 22 0:\(words[1]) / \(words[2]) rw - fuse.truce \(words[3]) rw,user_id=\(words[4])"
            }
            return MountTable(
                parsing: Array(
                    (["22 1 254:1 / / rw - ext4 /dev/root rw"] + text).joined(separator: "\n").utf8))
        }
        return tables[1].newMount(
            at: Array("/srv/a/m".utf8), from: Array("/srv/a/s".utf8), by: 1000, connection: connection,
            since: tables[0])?.mountpoint
    }

    @Test(
        "a user's new mount is found by its mountpoint, even if it has the number of a removed mount"
    )
    func aNewMountWithTheNumberOfARemovedMountIsFound() {
        let (gone, new) = ("40 44 /srv/b/m /srv/b/s 1001", "40 44 /srv/a/m /srv/a/s 1000")
        #expect(newMount([gone], [new]) == Array("/srv/a/m".utf8))
    }

    @Test("a mount that another user made at the same time is not taken for the new mount")
    func anotherUsersMountIsNotTheNewMount() {
        let (own, others) = ("41 45 /srv/a/m /srv/a/s 1000", "42 46 /srv/b/m /srv/a/s 1001")
        #expect(newMount([], [own, others]) == Array("/srv/a/m".utf8))
        #expect(newMount([], [others]) == nil)
        // The second list also has a mount that the same user made at the same moment.
        #expect(newMount([], [own, "42 46 /srv/a/n /srv/a/s 1000"]) == Array("/srv/a/m".utf8))
    }

    @Test("a new mount is found under its present path after its directory was renamed")
    func aNewMountBelowARenamedDirectoryIsFound() {
        #expect(newMount([], ["41 45 /srv/a/moved /srv/a/s 1000"]) == Array("/srv/a/moved".utf8))
    }

    @Test("if the FUSE connection number is known, it identifies the new mount")
    func theConnectionNumberIdentifiesTheNewMount() {
        let (own, second) = ("41 45 /srv/a/moved /srv/a/s 1000", "42 46 /srv/a/m /srv/a/s 1000")
        #expect(newMount([], [own, second], connection: 45) == Array("/srv/a/moved".utf8))
        #expect(newMount([own, second], [own, second], connection: 46) == Array("/srv/a/m".utf8))
        #expect(newMount([own], [own], connection: 47) == nil)
    }

    /// The kernel lists a copy of a mount after the mount itself, so the first entry is the mount.
    @Test(
        "a copy that mount propagation makes is not taken for the new mount",
        arguments: [45, nil] as [UInt32?])
    func aCopyThatMountPropagationMakesIsNotTheNewMount(connection: UInt32?) {
        let (own, copy) = ("41 45 /srv/a/m /srv/a/s 1000", "42 45 /data/a/m /srv/a/s 1000")
        #expect(newMount([], [own, copy], connection: connection) == Array("/srv/a/m".utf8))
        if connection != nil {
            let moved = "41 45 /srv/a/moved /srv/a/s 1000"
            #expect(newMount([], [moved, copy], connection: connection) == Array("/srv/a/moved".utf8))
        }
        // If the given path leads to the mountpoint in the copied directory, the copy is the visible mount there.
        let (elsewhere, here) = ("41 45 /data/a/m /srv/a/s 1000", "42 45 /srv/a/m /srv/a/s 1000")
        #expect(newMount([], [elsewhere, here], connection: connection) == Array("/srv/a/m".utf8))
    }
}
