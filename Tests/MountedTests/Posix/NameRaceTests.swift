// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    /// Guarantees, "Everything else is as in the directory below": an errno that a plain directory does not give is an error of
    /// Truce. `Tests/Workers/name-race` lists the errnos of each operation; with `Scripts/conformance --all` it makes a million
    /// steps.
    @Suite struct NameRaceTests {
        @Test(
            "Programs that race for names get the same errors as in a plain directory",
            arguments: [false, true])
        func racingProgramsGetTheErrorsOfAPlainDirectory(isMounted: Bool) throws {
            guard isMounted else { return try Self.race(in: try Lab.freshDirectory("race")) }
            try MountedDirectory.with { mount in
                try Self.race(in: mount.path)
                // The kernel retries a request only once. If the file is in use again at the retry, the request waits under the
                // kernel's locks. A writer needs these locks, so the request preempts the writer.
                let status = try mount.status()
                checkForcedSteps(status, except: [.proceeded])
                #expect(
                    status.counters.proceeded <= status.counters.parkedUnderLock, "\(status.journalText())")
            }
        }

        /// In each pause of the changes, the listener must know exactly the names that exist. `Scripts/test --all` makes 500
        /// pauses.
        @Test(
            "A folder's presenter that never lists the folder knows all names while four programs change them"
        )
        func aFolderPresenterThatNeverListsTheFolderKnowsAllItsNames() throws {
            try MountedDirectory.with { mount in
                let seed = UInt32.random(in: 0...UInt32.max)
                let moments = try Lab.number("TRUCE_MOMENTS", default: 8)
                let listener = try Program("python3").start(
                    Checkout.path("Tests/Workers/last-word"), mount.path, "\(moments)", "2000", "\(seed)")
                let outcome = try listener.wait(within: .seconds(120 + moments * 4))
                #expect(outcome.isSuccess, "seed \(seed): \(outcome.text)\(outcome.errorText)")
                checkForcedSteps(try mount.status())
            }
        }

        /// Runs the race in a directory. The output contains the seed of the race.
        private static func race(in directory: String) throws {
            let race = try BuiltProgram.start("NameRace", "--steps", "2500", directory)
            let outcome = try race.wait(within: .seconds(120))
            let seen = outcome.errorText.split(separator: "\n")
            print(seen.first ?? "")
            let wrong = outcome.text.split(separator: "\n").filter { !$0.hasPrefix("ok ") }
            #expect(outcome.isSuccess && wrong.isEmpty, "\(outcome.errorText)")
            #expect(seen.count > 30)
        }
    }
}
