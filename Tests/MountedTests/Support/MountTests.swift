// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Tests on real mounts with real programs. The tests run one after another, because they measure times and a parallel test
/// would delay them.
@Suite(.serialized) enum MountTests {}

extension MountTests {
    @Suite struct FirstMountTests {
        @Test("A mount shows the files of its source, and writes go to these files")
        func aMountShowsTheFilesOfItsSourceAndWritesGoToThem() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("below\n", to: $0 + "/file") }) {
                mount in
                #expect(try Program("cat").run(mount.path + "/file").text == "below\n")
                try Script("echo above > \"$1/file\"").run(mount.path)
                #expect(try FileContents.text(of: mount.below + "/file") == "above\n")
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }
    }
}
