// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Ten programs edit the same ten files without a lock: each reads a file, closes it, changes it and writes it anew. An edit
    /// may disappear from its file, but then it is in a version.
    @Suite struct SharedEditTests {
        /// How a program writes a file anew.
        enum Way: String, CaseIterable, Sendable { case truncate, overwrite, rename, mixed }

        /// The output of the program `shared-edits`.
        struct Edits: Decodable {
            let edits: Int
            let missing: [[Int]]
            let milliseconds: Int
            let torn: Int
            let refused: Int
            let failures: [String]
        }

        static let files = 10
        static let programs = 10

        static func run(_ directory: String, _ way: Way, rounds: Int, seed: UInt32) throws -> Edits {
            let worker = try Program("python3").run(
                Checkout.path("Tests/Workers/shared-edits"), directory, "\(programs)", "\(files)",
                "\(rounds)",
                way.rawValue, "\(seed)", within: .seconds(300))
            return try JSONDecoder().decode(Edits.self, from: Data(worker.output))
        }

        /// All edits that are in the versions of a mount. A version that was made during an overwrite in place may mix two
        /// contents. Then it is no JSON, and none of its edits count.
        private static func preservedEdits(of mount: MountedDirectory) throws -> Set<[Int]> {
            try mount.kept().reduce(into: []) { edits, entry in
                let text = try TruceCommand.run("versions", mount.path, "show", entry.id).output
                do {
                    edits.formUnion(try JSONDecoder().decode([[Int]].self, from: Data(text)))
                } catch {
                    print("the version \(entry.id) (\(entry.cause)) is no JSON")
                }
            }
        }

        @Test(
            "Each of the edits that ten programs make in ten files is in its file or in a version",
            arguments: Way.allCases)
        func eachEditIsInItsFileOrInAVersion(way: Way) throws {
            let rounds = try Lab.number("TRUCE_EDITS", default: Lab.isLong ? 300 : 30)
            let seed = UInt32.random(in: 0..<1_000_000)
            let plain = try Self.run(try Lab.freshDirectory("plain"), way, rounds: rounds, seed: seed)
            try MountedDirectory.with("wait=120s") { mount in
                let edits = try Self.run(mount.path, way, rounds: rounds, seed: seed)
                let preserved = try Self.preservedEdits(of: mount)
                let lost = edits.missing.filter { !preserved.contains($0) }
                print(
                    """
                    \(way), seed \(seed): of \(edits.edits) edits \(edits.missing.count) are in versions only, \
                    \(lost.count) are lost, \(edits.milliseconds) ms; in a plain directory, of \(plain.edits) edits \
                    \(plain.missing.count) are lost, \(plain.torn) reads are torn, \(plain.milliseconds) ms
                    """)
                #expect(edits.edits == Self.programs * rounds && edits.torn == 0, "\(edits.torn) torn")
                #expect(edits.failures.isEmpty)
                #expect(lost.count == 0)
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }
    }
}
