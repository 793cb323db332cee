// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import LinuxSystem
import Testing

@Suite("Node numbers")
struct NodeIDEncodingTests {
    private func number(
        _ inode: UInt64, elsewhere: UInt64? = nil, born nanoseconds: UInt32 = 7,
        isTaken: (UInt64) -> Bool = { _ in false }
    ) -> UInt64 {
        NodeIDEncoding.number(
            inode: inode, born: Self.time(nanoseconds), elsewhere: elsewhere, isTaken: isTaken)
    }

    private static func time(_ nanoseconds: UInt32) -> FileStatus.Time {
        FileStatus.Time(seconds: 1_700_000_000, nanoseconds: nanoseconds)
    }

    @Test("A file's node number follows only from the file, and is the same in every process")
    func aNodeNumberIsTheSameInEveryProcess() {
        // This number must never change. Otherwise the inode numbers of all files would change when a new daemon takes over a
        // mount.
        #expect(number(12) == 0x1A03_0000_0000_000C)
        #expect(number(12, elsewhere: 0x802) == 0x0F11_2A6F_3C9C_3BBC)
        #expect(NodeIDEncoding.generation(born: Self.time(7)) == 0xA2C0_8D09)
        #expect(number(12) != number(13))
        #expect(number(12) != number(12, born: 8))
        #expect(number(12, elsewhere: 0x801) != number(12, elsewhere: 0x802))
        #expect(
            NodeIDEncoding.generation(born: Self.time(7)) != NodeIDEncoding.generation(born: Self.time(8)))
    }

    @Test(
        "Node numbers are unique, in their range, and end in the same four bits as the inode number",
        arguments: [nil, 0x802])
    func nodeNumbersAreUniqueAndInRange(elsewhere: UInt64?) {
        var seen: Set<UInt64> = []
        for inode in UInt64(1)...200_000 {
            let number = number(inode, elsewhere: elsewhere)
            #expect(number & 15 == inode & 15 && number >= 16 && number < NodeIDEncoding.end)
            seen.insert(number)
        }
        #expect(seen.count == 200_000)
    }

    @Test(
        "The node number of a file contains the inode number only if the file is on the source's device")
    func theNodeNumberOfASourceFileContainsItsInodeNumber() {
        let longest: UInt64 = 1 << 48 - 1
        for inode in [1, 12, 1 << 32, longest] as [UInt64] {
            #expect(NodeIDEncoding.inode(of: number(inode)) == inode)
            #expect(NodeIDEncoding.inode(of: number(inode, elsewhere: 0x802)) == nil)
        }
        for inode in [longest + 1, 1 << 63 | 5] as [UInt64] {
            #expect(NodeIDEncoding.inode(of: number(inode)) == nil)
        }
        // The file has no time of birth. A later file with its inode number would get the same node number, so the node number
        // gives no inode number.
        let unborn = NodeIDEncoding.number(
            inode: 12, born: .init(seconds: 0, nanoseconds: 0), elsewhere: nil, isTaken: { _ in false })
        #expect(NodeIDEncoding.inode(of: unborn) == nil)
        #expect(NodeIDEncoding.inode(of: 1) == nil)
        #expect(NodeIDEncoding.inode(of: NodeIDEncoding.end | number(12)) == nil)
    }

    @Test(
        "If the node number for a file is in use, the file gets the next free node number"
    )
    func aFileGetsTheNextNodeNumberIfItsNumberIsInUse() {
        var taken: Set<UInt64> = []
        for _ in 0..<4096 {
            let number = number(12) { taken.contains($0) }
            #expect(NodeIDEncoding.inode(of: number) == 12)
            #expect(taken.insert(number).inserted)
        }
        // All node numbers for this inode number are in use, which does not happen in practice. The next file must still get a
        // number that is free.
        let next = number(12) { taken.contains($0) }
        #expect(NodeIDEncoding.inode(of: next) == nil && !taken.contains(next))
        let scattered = number(12, elsewhere: 1)
        #expect(number(12, elsewhere: 1) { $0 == scattered } == scattered + 16)
    }
}
