// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import TestSupport
import Testing

@Suite("The kernel's table of a process's descriptors")
struct DescriptorTableTests {
    @Test("A descriptor table grows to the requested size or the limit, and no descriptor stays open")
    func theDescriptorTableGrowsToTheRequestedSizeWithoutLeaks() throws {
        func size() throws -> Int {
            try #require(ProcessStatus(of: getpid())?["FDSize"].flatMap { Int($0) })
        }
        var limit = rlimit()
        try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        let most = Int(clamping: limit.rlim_cur)
        let wanted = try min(2 * size(), most)
        try DescriptorTable.reserve(wanted)
        let found = try size()
        #expect(found >= wanted)
        #expect(fcntl(CInt(wanted - 1), F_GETFD) == -1)
        // The table has room for more descriptors, so this call does nothing.
        try DescriptorTable.reserve(1)
        #expect(try size() == found)
    }
}
