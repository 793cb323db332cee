// SPDX-License-Identifier: Apache-2.0
import Coordination
import Synchronization
import Testing

import func TestSupport.eventually

@testable import CoordinationEngine

/// Checks the limits on messages to two kinds of presenters: those that do not read their messages, and those of a guest.
@Suite struct DeliveryQuotaTests {
    /// A folder in which programs change files, and presenters that show the folder.
    private struct Folder {
        let stage: EngineHarness
        let item = ItemID(10)

        init() throws {
            stage = try EngineHarness()
            stage.engine.place(item, DirectoryInfo(in: nil))
        }

        /// Changes the files, each by two programs. When the second program changes a file, the arbiter sends the notice of the
        /// first program's change.
        func fill(_ numbers: ClosedRange<UInt64>) {
            for number in numbers {
                let party = Party(process: ProcessID(number: Int32(number), started: 1), ancestors: [])
                stage.engine.noteChange(
                    of: ItemID(100 + number), at: Place(in: item), by: party, .write(.updating), under: nil,
                    stamp: number)
                stage.engine.noteChange(
                    of: ItemID(100 + number), at: Place(in: item), by: .nobody, .write(.updating), under: nil,
                    stamp: number)
            }
        }

        func present(_ count: Int, in mailbox: Mailbox, guest: UInt32? = nil) -> [PresenterID] {
            (0..<count).map { _ in
                stage.engine.present(
                    StandInDocument(item), by: StandInClaimant("nvim", 640).party,
                    implementing: [.subitemDidChange], in: mailbox, guest: guest)
            }
        }
    }

    @Test(
        "if too many messages to a client wait, its presenters get no more, and later one notice that they missed changes"
    )
    func ifTooManyMessagesToAClientWaitItsPresentersGetOneNoticeLater() throws {
        let folder = try Folder()
        let wakes = Atomic<Int>(0)
        let mailbox = Mailbox { wakes.add(1, ordering: .relaxed) }
        let shown = folder.present(64, in: mailbox)
        folder.fill(1...200)
        #expect(mailbox.isPaused)
        // Many messages have arrived. Only the first wakes the connection, because the mailbox was empty before it.
        #expect(wakes.load(ordering: .relaxed) == 1)
        let taken = mailbox.take().count
        #expect(taken > Mailbox.most && taken < Mailbox.most + 64 * 4)
        folder.fill(201...300)
        #expect(mailbox.take().isEmpty)
        folder.stage.engine.resume(mailbox)
        let gaps = mailbox.take()
        #expect(Set(gaps.map(\.presenter)) == Set(shown) && gaps.count == shown.count)
        #expect(
            gaps.allSatisfy { if case .notice(.subitemDidChange, nil) = $0.content { true } else { false } })
        folder.fill(301...302)
        #expect(!mailbox.take().isEmpty)
        folder.stage.engine.remove(shown)
    }

    @Test("a guest above its message quota gets no messages until the quota is renewed; other users get all")
    func aGuestAboveItsQuotaGetsNoMessages() throws {
        let folder = try Folder()
        let (guests, others) = (Mailbox {}, Mailbox {})
        let shown = folder.present(64, in: guests, guest: 7) + folder.present(1, in: others)
        var heard = 0
        for number in 1...200 as ClosedRange<UInt64> {
            folder.fill(number...number)
            heard += guests.take().count
        }
        #expect(heard <= DeliveryQuota.allowance + 64)
        #expect(others.take().count > 150)
        // While the guest's share is used up, a new presenter of the guest also gets no messages.
        let late = folder.present(1, in: guests, guest: 7)
        folder.fill(201...210)
        #expect(guests.take().isEmpty)
        // The messages can come in several parts. Each presenter is told.
        var told: Set<PresenterID> = []
        try eventually(within: .seconds(20), "the share to be renewed") {
            told.formUnion(guests.take().map(\.presenter))
            return told.count >= 64
        }
        folder.stage.engine.remove(shown + late)
    }

    @Test(
        "a guest above its message quota gets neither messages nor questions about its item; other presenters get both"
    )
    func aGuestAboveItsQuotaGetsNoMessagesOrQuestions() throws {
        let stage = try EngineHarness()
        let (guests, others) = (Mailbox {}, Mailbox {})
        let file = ItemID(30)
        func present(_ mailbox: Mailbox, _ guest: UInt32?) -> PresenterID {
            stage.engine.present(
                StandInDocument(file), by: StandInClaimant("nvim", 640).party,
                implementing: [.didChange, .relinquishToWriter], in: mailbox, guest: guest)
        }
        let shown = (0..<64).map { _ in present(guests, 7) }
        let other = present(others, nil)
        var heard = 0
        for number in 1...200 as ClosedRange<UInt64> {
            for party in [StandInClaimant("a", Int32(number)).party, .nobody] {
                stage.engine.noteChange(
                    of: file, at: Place(), by: party, .write(.updating), under: nil, stamp: number)
            }
            heard += guests.take().count
        }
        #expect(heard > DeliveryQuota.allowance / 2 && heard <= DeliveryQuota.allowance + 128)
        #expect(others.take().count > 300)
        let late = present(guests, 7)
        // The writer waits only for the presenter of the other user. The guest's presenters are not asked, so contents are
        // preserved for them.
        let vi = StandInClaimant("vi", 900)
        let claim = stage.claim(.handle, (.write(.updating), 30), by: vi)
        let isAsked = guests.take().contains { if case .request = $0.content { true } else { false } }
        #expect(!isAsked && !vi.isGranted)
        for case .request(let question, _, _, _) in others.take().map(\.content) {
            stage.engine.answer(question, of: other, .done)
        }
        guard case .granted(let grant) = vi.decision else { throw Hung() }
        #expect(grant.unanswered == [shown[0]])
        stage.engine.end(claim)
        try eventually(within: .seconds(20), "the share to be renewed") {
            !stage.engine.withState { $0.itemQuota.isSpent(7) }
        }
        try eventually(within: .seconds(10), "the news") {
            // The mailbox can contain notices of earlier access sessions. After them it contains one notice for each presenter
            // that missed changes.
            guests.take().map(\.presenter).suffix(shown.count) == shown[...]
        }
        stage.engine.remove(shown + [late, other])
    }

    private struct Hung: Error {}

    @Test("a message quota can be spent once in a period, and is then renewed")
    func aMessageQuotaIsRenewedEachPeriod() {
        var quota = DeliveryQuota()
        let start = Instant(nanoseconds: 1_000_000_000)
        #expect(quota.charge(7, DeliveryQuota.allowance, at: start) == nil)
        #expect(!quota.isSpent(7))
        #expect(quota.charge(7, 1, at: start + .seconds(1)) == start + DeliveryQuota.period)
        #expect(quota.charge(7, 1, at: start + .seconds(2)) == nil)
        #expect(quota.isSpent(7) && !quota.isSpent(8) && !quota.isSpent(nil))
        quota.renew(7)
        #expect(!quota.isSpent(7))
        // When a new period begins, the messages of the period before no longer count.
        #expect(quota.charge(8, DeliveryQuota.allowance, at: start) == nil)
        #expect(quota.charge(8, DeliveryQuota.allowance, at: start + DeliveryQuota.period) == nil)
    }
}
