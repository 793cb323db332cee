// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite("Imports of system modules")
struct LawTests {
    @Test("each module imports only the system modules that it is allowed to import")
    func modulesImportOnlyAllowedSystemModules() {
        #expect(Repository.files.flatMap(DependencyLaws.findings) == [])
    }

    @Test(
        "the check finds a planted import that is not allowed",
        arguments: [
            ("Sources/Arbitration/A.swift", "import Glibc"),
            ("Sources/Coordination/A.swift", "public import Synchronization"),
            ("Sources/VersionStore/A.swift", "@preconcurrency import Glibc"),
            ("Sources/truce/A.swift", "import struct Foundation.Data"),
        ])
    func aPlantedForbiddenImportIsFound(path: String, text: String) {
        let lawful = "// import Glibc\nlet text = \"import Glibc\"\nimport Arbitration\n"
        #expect(DependencyLaws.findings(in: TextFile(path: path, text: lawful + text)).count == 1)
    }
}
