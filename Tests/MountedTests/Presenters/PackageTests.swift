// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Checks packages: directories that are a single document for the user, because of their name or a user's mark.
extension MountTests {
    @Suite struct PackageTests {
        enum Kind: String, CaseIterable {
            case named = "letter.textbundle"
            case weak = "letter.WEAKPKG"
            case marked = "album"
        }

        @Test(
            "A package's presenter is asked before a name in the package is made or removed",
            arguments: Kind.allCases)
        func aPackagePresenterIsAskedBeforeChangesInside(kind: Kind) throws {
            try MountedDirectory.with { mount in
                let package = mount.path + "/" + kind.rawValue
                try Self.make(package, kind)
                let presenter = try TruceCommand.start("present", "--json", package)
                try eventually(within: .seconds(10), "the presenter") {
                    presenter.errorText.contains("presenting")
                }
                let made = ["relinquishToWriter", "subitemDidAppear", "reacquire"]
                let removed = [
                    "relinquishToWriter", "accommodateSubitemDeletion", "subitemDidChange", "reacquire",
                ]
                let moved = ["relinquishToWriter", "subitemDidMove", "reacquire"]
                var expected: [String] = []
                for (command, methods) in [
                    ("mkdir inner/new", made), ("ln -s text inner/link", made), ("ln text inner/name", made),
                    ("mkfifo pipe", made), ("echo more >inner/file", made), ("rmdir inner/new", removed),
                    ("rm inner/file", removed), ("mv inner/name inner/renamed", moved),
                ] {
                    try Script("cd \"$1\" && eval \"$2\"").run(package, command)
                    expected += methods
                    try eventually(within: .seconds(10), "\(methods) of '\(command)': \(presenter.text)") {
                        Self.methods(in: presenter.text).count >= expected.count
                    }
                    try #require(Self.methods(in: presenter.text) == expected, "\(command)")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "While a program holds a package, changes of names in it wait, and its directory can still be listed"
        )
        func aHeldPackageBlocksCreationInside() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                let package = mount.path + "/" + Kind.named.rawValue
                try Self.make(package, .named)
                try Script("cd \"$1\" && touch gone here && mkdir empty").run(package)
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), package, "echo held; read line", input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let commands = [
                    "mkdir new", "ln -s text link", "ln text name", "mkfifo pipe", "echo x >one",
                    "echo x >two", "rm gone", "mv here there", "rmdir empty",
                ]
                let makers = try commands.map { try Script("cd \"$1\" && eval \"$2\"").start(package, $0) }
                try eventually(within: .seconds(10), "\(commands.count) to wait") {
                    try mount.status().waiting.count == commands.count
                }
                // If a program held the kernel's lock of the directory, this command would hang.
                #expect(try Program("ls").run(package).text == "empty\ngone\nhere\ninner\ntext\n")
                try Program("mkdir").run(mount.path + "/beside")
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                for maker in makers { try maker.wait(within: .seconds(10)).requireSuccess() }
                #expect(
                    try Program("ls").run(package).text
                        == "inner\nlink\nname\nnew\none\npipe\ntext\nthere\ntwo\n")
                // A change of names in the package suspends all programs that have a file of it open, because a package counts
                // as one file.
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        private static func make(_ package: String, _ kind: Kind) throws {
            try Script("mkdir -p \"$1/inner\" && echo text | tee \"$1/text\" >\"$1/inner/text\"").run(package)
            if kind == .marked {
                try Program("setfattr").run("--name", "user.truce.package", "--value", "1", package)
            }
        }

        private static func methods(in text: String) -> [String] {
            text.split(separator: "\n").compactMap { line in
                let method = line.split(separator: "\"").first { $0.hasPrefix("presenter/") }
                return method.map { String($0.dropFirst("presenter/".count)) }
            }
        }
    }
}
