// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    /// Programs for Apple's Foundation, with an additional import, print the same as with Apple's Foundation.
    @Suite struct SampleProgramTests {
        @Test(
            "A sample program for Apple's file coordination prints the expected text with the library",
            arguments: [
                "NotesEditor", "FolderBrowser", "SyncAgent", "BatchCopier", "TwoPresenters", "VersionBrowser",
            ])
        func sampleProgramsPrintTheExpectedText(sample: String) throws {
            try MountedDirectory.with { mount in
                let program = try BuiltProgram.start(sample, mount.path)
                let outcome = try program.wait(within: .seconds(90), for: "the end of \(sample)")
                let expected = try FileContents.text(
                    of: Checkout.path("Tests/Samples/Expected/\(sample).txt"))
                #expect(outcome.text == expected, "\(outcome.errorText)")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("Outside a mount the library calls no accessor, and the error says how to mount")
        func withoutAMountNoAccessorIsCalled() throws {
            let directory = try Script("mktemp -d").run().text.split(separator: "\n").map(String.init)[0]
            let program = try BuiltProgram.start("SyncAgent", directory)
            let outcome = try program.wait(within: .seconds(90), for: "the end of SyncAgent")
            try Script("rm -r \"$1\"").run(directory)
            #expect(outcome.text.contains("is not in a folder mounted by truce"))
            #expect(outcome.text.contains("truce mount DIRECTORY"))
        }
    }
}
