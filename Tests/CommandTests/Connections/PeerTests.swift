// SPDX-License-Identifier: Apache-2.0
import ControlServer
import Glibc
import LinuxSystem
import Testing
import VersionStore

@testable import truce

/// Checks the user, groups and process of a connected client, which SO_PEERCRED and SO_PEERGROUPS report.
@Suite("Credentials of a connected process")
struct PeerTests {
    private func peer(group: UInt32, _ supplementary: [UInt32]) -> Credentials {
        let credentials = PeerCredentials(pid: 7, user: 10, group: group)
        return Credentials(Peer(credentials, supplementaryGroups: supplementary))
    }

    @Test("a peer may read a file of its primary group or of one of its supplementary groups")
    func aPeerMayReadFilesOfAnyOfItsGroups() {
        let rights = FileRights(user: 0, group: 20, mode: 0o100_640, accessControlList: nil)
        #expect(rights.mayRead(peer(group: 20, [])))
        #expect(rights.mayRead(peer(group: 21, [22, 20])))
        #expect(!rights.mayRead(peer(group: 21, [22])))
        let closed = FileRights(user: 0, group: 20, mode: 0o100_604, accessControlList: nil)
        #expect(!closed.mayRead(peer(group: 21, [20])))
    }

    @Test("all groups of a peer are read from the kernel, even if the first buffer is too small")
    func theKernelReturnsAllGroupsOfThePeer() throws {
        var ends: [CInt] = [0, 0]
        try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let one = OwnedDescriptor(adopting: ends[0])
        let other = OwnedDescriptor(adopting: ends[1])
        let peer = try Peer(of: one.rawValue)
        var groups = [gid_t](repeating: 0, count: Int(getgroups(0, nil)))
        #expect(getgroups(CInt(groups.count), &groups) == groups.count)
        #expect(peer.supplementaryGroups.sorted() == groups.sorted())
        let asked = try PeerCredentials.supplementaryGroups(of: one.rawValue, expected: 0)
        #expect(asked.sorted() == groups.sorted())
        #expect(peer.user == geteuid() && peer.pid == getpid() && peer.groups.first == getegid())
        withExtendedLifetime(other) {}
    }
}
