// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import LinuxSystem
import Testing

@Suite("Numbers of nodes")
struct NodeNumberingTests {
    private func number(
        _ inode: UInt64, device: UInt64 = 0x801, born nanoseconds: UInt32 = 7, endingIn ending: UInt64 = 5,
        isTaken: (UInt64) -> Bool = { _ in false }
    ) -> UInt64 {
        NodeNumbering.number(
            device: device, inode: inode, born: .init(seconds: 1_700_000_000, nanoseconds: nanoseconds),
            endingIn: ending, isTaken: isTaken)
    }

    @Test("A number follows from the file alone, whichever process asks")
    func constant() {
        // Another number here is another number for every file of every mount that is taken over.
        #expect(number(12) == 0x1F0A_A314_AF90_7085)
        #expect(number(12) != number(13))
        #expect(number(12) != number(12, device: 0x802))
        #expect(number(12) != number(12, born: 8))
    }

    @Test("Numbers end as wished, lie in their range, and are nobody's twice")
    func range() {
        var seen: Set<UInt64> = []
        for inode in UInt64(1)...200_000 {
            let number = number(inode, endingIn: inode & 15)
            #expect(number & 15 == inode & 15 && number >= 16 && number < NodeNumbering.end)
            seen.insert(number)
        }
        #expect(seen.count == 200_000)
    }

    @Test("Who finds a number taken gets the next one of the same ending")
    func taken() {
        let first = number(12)
        let second = number(12) { $0 == first }
        #expect(second == first + 16)
        let taken: Set<UInt64> = [first, second]
        #expect(number(12) { taken.contains($0) } == first + 32)
    }
}
