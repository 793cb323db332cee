// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Testing

@testable import truce

/// Checks the text in `truce why` and `truce status` that says how long guests made other users wait.
@Suite struct DelayTextTests {
    private let spent = DelayForm(guest: 1001, delayed: 1000, spent: 60_000, allowed: 60_000, left: 120_000)

    @Test(
        "`why` reports that a guest's reader was suspended, and how much of its hourly allowance the guest has used"
    )
    func whyReportsHowMuchDelayAllowanceAGuestHasUsed() {
        let claim = ClaimForm(
            claim: 1, actor: ProcessDescriptionForm(pid: 712, user: 1001, program: Array("cat".utf8)),
            intents: [IntentForm(Array("notes".utf8), .read([]))], state: "suspended", suspension: "yielded",
            exceeded: spent, age: 3200)
        let snapshot = CoordinationSnapshotForm(claims: [claim], presenters: [], delays: [spent])
        #expect(
            snapshot.explanation(of: "notes") == [
                "cat (pid 712) has had 'notes' for 3.2 s to read it and is suspended (yielded): "
                    + "it gave way after a moment, since user 1001 has made user 1000 wait 60.0 s of 60.0 s in an hour",
                "user 1001 has made user 1000 wait 60.0 s of 60.0 s in an hour: its programs are waited for a moment "
                    + "only, for 3 minutes more",
            ])
    }

    @Test(
        "the delay text is right for all guests together, unknown programs and an allowance that is not used up"
    )
    func theDelayTextIsCorrectForAllGuestsAndUnknownPrograms() {
        let sum = DelayForm(guest: nil, delayed: nil, spent: 240_000, allowed: 240_000, left: 1)
        #expect(
            sum.text
                == "all guests together have made unknown programs wait 240.0 s of 240.0 s in an hour: "
                + "their programs are waited for a moment only, for 1 minutes more")
        var used = spent
        used.spent = 12_300
        #expect(used.text == "user 1001 has made user 1000 wait 12.3 s of 60.0 s in an hour")
    }
}
