// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Dependency laws")
struct LawTests {
    @Test("each room imports the modules of the system that it may")
    func modulesObeyTheDependencyLaws() {
        #expect(Repository.files.flatMap(DependencyLaws.findings) == [])
    }

    @Test(
        "a planted import is found",
        arguments: [
            ("Sources/Arbitration/A.swift", "import Glibc"),
            ("Sources/Coordination/A.swift", "public import Synchronization"),
            ("Sources/VersionStore/A.swift", "@preconcurrency import Glibc"),
            ("Sources/truce/A.swift", "import struct Foundation.Data"),
        ])
    func plantedImport(path: String, text: String) {
        let lawful = "// import Glibc\nlet text = \"import Glibc\"\nimport Arbitration\n"
        #expect(DependencyLaws.findings(in: TextFile(path: path, text: lawful + text)).count == 1)
    }
}
