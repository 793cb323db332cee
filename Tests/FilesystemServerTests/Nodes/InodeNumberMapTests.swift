// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite("Inode numbers that programs see")
struct InodeNumberMapTests {
    /// No inode number reaches this limit. JavaScript represents integers exactly only up to this number.
    private static let end: UInt64 = 1 << 53
    private static let source: UInt64 = 0x801

    @Test("Inode numbers of the source's own file system stay unchanged")
    func inodeNumbersOfTheSourceStayUnchanged() {
        let numbers = InodeNumberMap(deviceOfSource: Self.source)
        for inode in [1, 1 << 48, 1 << 53, .max] as [UInt64] {
            #expect(numbers.number(ofInode: inode, on: Self.source) == inode)
        }
    }

    @Test(
        "Inode numbers of files on 30 other devices contain the file's own number, are unique, and below 2⁵³")
    func inodeNumbersOfFilesOn30OtherDevicesContainTheFilesOwnNumber() {
        let numbers = InodeNumberMap(deviceOfSource: Self.source)
        var seen: Set<UInt64> = []
        for device in UInt64(0x20)..<0x20 + 30 {
            for inode in [1, 2, 1 << 48 - 1] as [UInt64] {
                let number = numbers.number(ofInode: inode, on: device)
                #expect(number & (1 << 48 - 1) == inode && number >> 48 != 0 && number < Self.end)
                seen.insert(number)
            }
        }
        #expect(seen.count == 90)
    }

    @Test("Inode numbers of files on 100 other devices, and large inode numbers, are unique and below 2⁵³")
    func inodeNumbersOfFilesOnManyDevicesAreUniqueAndBelow2To53() {
        let numbers = InodeNumberMap(deviceOfSource: Self.source)
        var seen: Set<UInt64> = []
        for device in UInt64(0x20)..<0x20 + 100 {
            for inode in [1, 2, 1 << 48, 1 << 63 | 1] as [UInt64] {
                let number = numbers.number(ofInode: inode, on: device)
                #expect(number < Self.end)
                seen.insert(number)
            }
        }
        #expect(seen.count == 400)
    }

    @Test("A file has the same inode number after the daemon forgot the file, and in the next daemon")
    func aFilesInodeNumberIsTheSameInTheNextDaemon() {
        let numbers = InodeNumberMap(deviceOfSource: Self.source)
        let first = (1...100).map { numbers.number(ofInode: 1 << 60 | $0, on: 0x20) }
        for inode in UInt64(1)...300_000 { _ = numbers.number(ofInode: 1 << 61 | inode, on: 0x20) }
        let next = InodeNumberMap(deviceOfSource: Self.source)
        #expect(first == (1...100).map { numbers.number(ofInode: 1 << 60 | $0, on: 0x20) })
        #expect(first == (1...100).map { next.number(ofInode: 1 << 60 | $0, on: 0x20) })
        #expect(Set(first).count == 100)
    }
}
