// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Testing

@Suite struct FileLocksTests {
    private static func text(_ lines: String...) -> [UInt8] {
        Array(
            (["pos:\t0", "flags:\t0100002", "mnt_id:\t29", "ino:\t7"] + lines).joined(separator: "\n").utf8)
    }

    @Test(
        "A descriptor's lock is found in its fdinfo text",
        arguments: [
            "lock:\t1: FLOCK  ADVISORY  WRITE 4711 00:35:7 0 EOF",
            "lock:\t1: POSIX  ADVISORY  READ  4711 00:35:7 0 9",
            "lock:\t2: OFDLCK ADVISORY  WRITE -1 00:35:7 0 EOF",
        ])
    func locksOfADescriptorAreFound(line: String) {
        #expect(FileLocks.areHeld(by: Self.text(line)))
        #expect(
            FileLocks.areHeld(by: Self.text("lock:\t1: LEASE  ACTIVE    WRITE 4711 00:35:7 0 EOF", line, "")))
    }

    @Test(
        "A lease or a truncated line in the fdinfo text is not taken for a lock",
        arguments: [
            "lock:\t1: LEASE  ACTIVE    WRITE 4711 00:35:7 0 EOF", "lock:\t1:", "lock:", "locks: 1: FLOCK",
            "",
        ])
    func leasesAndTruncatedTextAreNoLocks(line: String) { #expect(!FileLocks.areHeld(by: Self.text(line))) }
}
