// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// The evidence on real mounts, by real programs. One after the other: they measure times, and the machine has no
/// cores to spare.
@Suite(.serialized) enum Mounted {}

extension Mounted {
    @Suite struct Beginning {
        @Test("A mount shows the directory below and leaves it as it was found")
        func mounting() throws {
            try MountedDirectory.with(prepare: { try Contents.write("below\n", to: $0 + "/file") }) { mount in
                #expect(try Program("cat").run(mount.path + "/file").text == "below\n")
                try Script("echo above > \"$1/file\"").run(mount.path)
                #expect(try Contents.text(of: mount.below + "/file") == "above\n")
                try mount.checkDataPath()
                checkForced(try mount.status())
            }
        }
    }
}
