// SPDX-License-Identifier: Apache-2.0
import Testing

/// The rooms of Architecture, and which may import which.
@Suite struct LawTests {
    @Test("The rooms keep the dependency laws")
    func modulesObeyTheDependencyLaws() {
        #expect(Repository.files.flatMap(DependencyLaws.findings) == [])
    }

    @Test("What is public for the compiler's sake is there")
    func specialisedFilesExist() {
        #expect(DependencyLaws.specialised.subtracting(Repository.files.map(\.path)) == [])
    }

    @Test("The law is stated for the pure rooms, the bridges and the two doors into the engine")
    func statedLaws() throws {
        for room in DependencyLaws.pureRooms {
            #expect(try #require(DependencyLaws.imports[room]).isSubset(of: DependencyLaws.pureRooms))
        }
        let importersOfFuse = DependencyLaws.imports.filter { $0.value.contains("CFuse") }.keys
        #expect(importersOfFuse.sorted() == ["FuseBridge"])
        #expect(DependencyLaws.imports["FilesystemServer"]?.contains("ControlServer") == false)
        #expect(DependencyLaws.imports["ControlServer"]?.contains("FilesystemServer") == false)
    }

    @Test(
        "A broken law is found",
        arguments: [
            ("Sources/Arbitration/A.swift", "import Glibc"),
            ("Sources/Coordination/A.swift", "public import Arbitration"),
            ("Sources/Arbitration/A.swift", "let now = ContinuousClock.now"),
            ("Sources/FilesystemServer/A.swift", "package import CFuse"),
            ("Sources/FilesystemServer/A.swift", "import struct ControlServer.Server"),
            ("Sources/ControlServer/A.swift", "import FilesystemServer"),
            ("Sources/VersionStore/A.swift", "@preconcurrency import Glibc"),
            ("Sources/LinuxSystem/A.swift", "public struct Errno {}"),
            ("Sources/LinuxSystem/A.swift", "@objc public private(set) var a = 1"),
            ("Sources/LinuxSystem/A.swift", "    open override func close()"),
            ("Sources/truce/A.swift", "import Foundation"),
            ("Sources/CLinux/include/A.h", "#include <fuse3/fuse_lowlevel.h>"),
            ("Sources/Utilities/A.swift", "import Coordination"),
        ])
    func aPlantedViolationIsFound(path: String, text: String) {
        let lawful = "// import CFuse\nlet text = \"import CFuse\"\n"
        #expect(DependencyLaws.findings(in: TextFile(path: path, text: lawful + text)).count == 1)
    }

    @Test("Prose may begin a line with the word import")
    func proseImportsAreIgnored() {
        let text = TextFile(
            path: "Sources/truce/truce.docc/A.md", text: "who would have to\nimport Arbitration\n")
        #expect(DependencyLaws.findings(in: text) == [])
    }

    @Test(
        "A name is not taken for a word of the language",
        arguments: ["open.finish()", "open(path)", "open = true", "publicWords in file"])
    func identifiersAreNotKeywords(text: String) {
        #expect(DependencyLaws.findings(in: TextFile(path: "Sources/truce/A.swift", text: text)) == [])
    }
}
