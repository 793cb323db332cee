// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    /// A plain directory never gives ESTALE. The kernel hides a first ESTALE from a program by a second walk along the path,
    /// but not a second ESTALE (D214).
    @Suite struct StaleNameTests {
        @Test("No call fails with ESTALE while its name is replaced all the time")
        func noCallFailsWithEstaleWhileItsNameIsReplacedAllTheTime() throws {
            // The look-up of a name does not depend on the data mode, so each mode runs one of the two cases.
            guard try Lab.dataPath == .passthrough else {
                try MountedDirectory.with { mount in
                    let failures = try Self.failures(changing: mount.path, using: mount.path)
                    #expect(failures == "")
                }
                return
            }
            let (source, place) = (try Lab.freshDirectory("source"), try Lab.freshDirectory("place"))
            try TruceCommand.run("mount", source, place)
            defer {
                do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
            }
            let failures = try Self.failures(changing: source, using: place)
            #expect(failures == "")
        }

        private static func failures(changing changed: String, using used: String) throws -> String {
            let program = try Program("python3").start(
                Checkout.path("Tests/Workers/stale-names"), changed, used, "2")
            return try program.wait(within: .seconds(60)).requireSuccess().text
        }
    }
}
