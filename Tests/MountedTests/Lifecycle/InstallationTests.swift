// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    @Suite struct InstallationTests {
        @Test("The installed commands work, and their removal removes exactly the installed files")
        func uninstallRemovesExactlyWhatWasInstalled() throws {
            let place = try Lab.freshDirectory("installing") + "/a prefix"
            for _ in 1...2 {
                let installed = try install("--prefix", place, "--binary", try binary)
                #expect(installed.isSuccess, "\(installed.errorText)")
            }
            #expect(try version("\(place)/bin/truce").hasPrefix("truce "))
            #expect(try helps("\(place)/sbin/mount.truce"))
            #expect(try helps("\(place)/sbin/mount.fuse.truce"))
            let manifest = try FileContents.text(of: place + "/share/truce/manifest")
            let found = try Script(
                "cd \"$1\" && find . -type f ! -name manifest -printf '%p ' -o -type l -printf '%p '"
            ).run(place)
            for path in found.text.split(separator: " ") {
                #expect(manifest.contains("\t\(place)/\(path.dropFirst(2))\n"), "\(path)")
            }
            try FileContents.write("another program's\n", to: "\(place)/bin/other")
            let removed = try install("--prefix", place, "--remove")
            #expect(removed.isSuccess, "\(removed.errorText)")
            let left = try Script("find \"$1\"").run(place).text.split(separator: "\n")
            #expect(Set(left) == [Substring(place), "\(place)/bin", "\(place)/bin/other"])
        }

        @Test("A file that Truce did not install is neither replaced nor removed")
        func foreignFilesAreNeitherReplacedNorRemoved() throws {
            let place = try Lab.freshDirectory("installing")
            try Program("mkdir").run("\(place)/bin")
            try FileContents.write("another program's\n", to: "\(place)/bin/truce")
            let refused = try install("--prefix", place, "--binary", try binary)
            #expect(refused.ending == .exited(1))
            #expect(refused.errorText.contains("\(place)/bin/truce"))
            #expect(try Program("find").run(place, "-type", "f").text == "\(place)/bin/truce\n")

            try Program("rm").run("\(place)/bin/truce")
            #expect(try install("--prefix", place, "--binary", try binary).isSuccess)
            try FileContents.write("changed since\n", to: "\(place)/bin/truce")
            let removed = try install("--prefix", place, "--remove")
            #expect(removed.ending == .exited(1))
            #expect(try FileContents.text(of: "\(place)/bin/truce") == "changed since\n")
            #expect(try Program("find").run(place, "!", "-type", "d").text == "\(place)/bin/truce\n")
        }

        @Test("With DESTDIR all files are installed below this directory, with links to their final places")
        func destdirPrefixesThePathOfEachInstalledFile() throws {
            let place = try Lab.freshDirectory("destination")
            let installed = try install("--binary", try binary, destination: place)
            #expect(installed.isSuccess, "\(installed.errorText)")
            let links = try Script("find \"$1\" -type l -printf '%f %l\\n' | sort").run(place).text
            #expect(links == "mount.fuse.truce /usr/local/bin/truce\nmount.truce /usr/local/bin/truce\n")
            #expect(try version(place + "/usr/local/bin/truce").hasPrefix("truce "))
            #expect(try install("--remove", destination: place).isSuccess)
            #expect(try Program("find").run(place, "-mindepth", "1").text.isEmpty)
        }

        @Test(
            "Invalid arguments of Scripts/install are refused with one sentence",
            arguments: [
                ["--prefix"], ["--prefix", "here"], ["--prefix", "/a/../b"], ["--sideways"],
                ["--binary", ""],
                ["--remove", "--binary", "/dev/null"], ["/usr"],
            ])
        func invalidInstallArgumentsAreRefused(arguments: [String]) throws {
            let outcome = try Script("exec \"$@\"").attempt(arguments: [script] + arguments)
            #expect(outcome.ending == .exited(2))
            #expect(outcome.errorText.split(separator: "\n").count == 1, "\(outcome.errorText)")
            #expect(outcome.text.isEmpty)
        }

        private var binary: String { get throws { try Lab.variable("TRUCE_BINARY") } }

        private var script: String { Checkout.path("Scripts/install") }

        private func install(_ arguments: String..., destination: String = "") throws -> ProgramResult {
            try Script("exec \"$@\"").attempt(
                arguments: [script] + arguments, with: ["DESTDIR": destination])
        }

        private func version(_ program: String) throws -> String {
            try Script("exec \"$1\" --version").run(program).text
        }

        private func helps(_ program: String) throws -> Bool {
            try Script("exec \"$1\" -h").run(program).text.contains("SOURCE DIR")
        }
    }
}
