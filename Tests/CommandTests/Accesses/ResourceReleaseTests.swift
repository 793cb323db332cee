// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem
import Testing

import func TestSupport.eventually

@testable import ControlServer
@testable import CoordinationEngine

/// Checks that the engine stores nothing of an access after the client cancels it or the connection ends. The access then no
/// longer counts against the client's limits.
@Suite("Resources of ended connections", .serialized)
struct ResourceReleaseTests {
    /// A program without a presenter that writes a file.
    private final class Holder: Claimant {
        private let party = Party(process: ProcessID(number: 640, started: 1), ancestors: [])
        var attribution: Attribution { Attribution(of: party) { Array("a".utf8) } }
        var intents: [Intent] { [Intent(.write(.updating)) { Array("a".utf8) }] }
        func observe() -> Observation { .dirty(stamp: 1) }
        func identify() -> Party { party }
    }

    @Test("a connection that closes while its access begins leaves no claim")
    func aConnectionThatClosesWhileItsAccessBeginsLeavesNoClaim() throws {
        let (workQueue, readQueue, watch) = (FairWorkQueue(), FairWorkQueue(), try ProcessWatch())
        let services = try GuestTests().makeService(workQueue, readQueue, watch)
        defer {
            watch.stop()
            try? workQueue.end()
            try? readQueue.end()
        }
        let credentials = PeerCredentials(pid: getpid(), user: 0, group: 0)
        let resources = ClientResources(of: Peer(credentials, supplementaryGroups: []), in: services)
        let accessRequest = ClientResources.AccessRequest(
            nature: .aware, intents: [IntentForm(Array("a".utf8), .write(.updating))], purpose: Purpose("p"),
            within: [], answering: nil, onBehalfOf: nil)
        let process = try watch.watch(try OtherProcess.watch(getpid())) {}
        let claim = services.engine.makeClaimID()
        let prepared = try resources.prepare(claim, accessRequest, watching: process)
        resources.close()
        let failure = #expect(throws: ProtocolFailure.self) {
            _ = try resources.take(claim, prepared, tell: { _, _ in })
        }
        #expect(failure == .cancelled)
        #expect(services.engine.snapshot(of: nil).claims.isEmpty)
    }

    @Test(
        "after a guest cancels waiting accesses, these accesses no longer count against the guest's limit"
    )
    func cancelledAccessesNoLongerCountAgainstAGuestsLimit() throws {
        let isRoot = geteuid() == 0
        try withServer(user: isRoot ? 1 : geteuid() + 1, isShared: true) { server in
            let holder = Holder()
            let document = try server.documents.find(Array("a".utf8))
            let held = server.engine.makeClaimID()
            let part = Coordination.ClaimRequest.Part(document.item, .write(.updating))
            #expect(server.engine.tryClaim(Coordination.ClaimRequest(held, .handle, part), by: holder))
            let guest = try asGuest { try AwareProgram(server) }
            for round in 1...2 {
                let begun = try (0..<ProtocolLimits.intentsOfGuest).map { _ in
                    try guest.begin("a", .write(.updating))
                }
                try eventually(within: .seconds(10), "all accesses of round \(round) to wait") {
                    server.engine.snapshot(of: nil).claims.count == begun.count + 1
                }
                let tooMuch = try #require(try guest.failure(of: try guest.begin("a", .write(.updating))))
                #expect(tooMuch.message.contains("at most \(ProtocolLimits.intentsOfGuest) items at once"))
                for id in begun { try guest.write(NotificationMessage(.cancel(id))) }
                for id in begun { #expect(try guest.failure(of: id) == .cancelled) }
                try eventually(within: .seconds(10), "the claims of round \(round) to go") {
                    server.engine.snapshot(of: nil).claims.count == 1
                }
            }
            server.engine.end(held)
            document.release()
        }
    }

    /// Connects as a user that is neither root nor the owner of the mount.
    private func asGuest<Result>(_ connect: () throws -> Result) throws -> Result {
        guard geteuid() == 0 else { return try connect() }
        guard ctest_appear_as(12345) == 0 else { throw Errno.last }
        defer { _ = ctest_appear_as(0) }
        return try connect()
    }
}
