// SPDX-License-Identifier: Apache-2.0
import CFuse
import Testing

@testable import FuseBridge

@Suite("FORGET requests that a polling thread postpones")
struct PostponedForgetTests {
    /// A FORGET request as the kernel sends it, byte for byte.
    private struct Message {
        var header = cfuse_in_header(
            len: 48, opcode: UInt32(CFUSE_FORGET), unique: 1, nodeid: 2, uid: 0, gid: 0, pid: 0,
            total_extlen: 0, padding: 0)
        var lookups: UInt64 = 1
    }

    @Test("A thread that stops polling handles the FORGET requests that it postponed")
    func aThreadThatStopsPollingHandlesTheForgetRequestsThatItPostponed() throws {
        var arguments = fuse_args()
        defer { fuse_opt_free_args(&arguments) }
        fuse_opt_add_arg(&arguments, "truce")
        var operations = fuse_lowlevel_ops()
        let session = try #require(cfuse_session_new(&arguments, &operations, nil))
        defer { fuse_session_destroy(session) }
        let polling = try BusyPolling(of: session)
        var message = Message()
        withUnsafeMutableBytes(of: &message) { bytes in
            var buffer = fuse_buf()
            (buffer.mem, buffer.size) = (bytes.baseAddress, bytes.count)
            #expect(polling.postponed.take(buffer, CInt(bytes.count)))
        }
        #expect(!polling.postponed.isEmpty)
        polling.leave(7, session)
        #expect(polling.postponed.isEmpty)
    }
}
