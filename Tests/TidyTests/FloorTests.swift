// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite struct FloorTests {
    @Test("No service names a service of a higher floor")
    func servicesNameLowerFloorsOnly() {
        #expect(Repository.files.flatMap(FloorLaws.findings) == [])
    }

    @Test("Each type of the floors exists")
    func floorTypesExist() {
        let code = Repository.files.filter { $0.isBelow(FloorLaws.root) }.flatMap(\.codeLines)
        let declared = code.compactMap { line in
            line.firstMatch(of: /\b(?:class|struct|enum) ([A-Z]\w*)/).map { String($0.1) }
        }
        #expect(
            FloorLaws.floors.reduce(into: Set<String>()) { $0.formUnion($1.types) }.subtracting(declared)
                == [])
    }

    @Test(
        "A call to a higher floor is found",
        arguments: [
            ("FileTree/Node.swift", "let watch: SourceWatch"),
            ("Data/DataPlane.swift", "init(_ closer: HandleCloser) {}"),
            ("Documents/SaveLifecycle.swift", "extension RetryCoordinator {}"),
            ("Retries/RetryWait.swift", "let lookups: [Lookup] = []"),
            ("Operations/Open/Open.swift", "unowned let root: CoordinatedFilesystem"),
            ("Elsewhere/A.swift", "let a = 1"),
        ])
    func aPlantedUpwardCallIsFound(place: String, code: String) {
        let lawful = "// SourceWatch\nlet a = Outcome.Open\nlet b = \"Mount\"\n"
        let file = TextFile(path: FloorLaws.root + "/" + place, text: lawful + code)
        #expect(FloorLaws.findings(in: file).count == 1)
    }

    @Test("A name of its own floor or of a lower one is lawful")
    func lowerFloorsAreLawful() {
        let text = "let tree: FileTree\nlet identity: DocumentIdentity\n"
        let file = TextFile(path: FloorLaws.root + "/Documents/SaveLifecycle.swift", text: text)
        #expect(FloorLaws.findings(in: file) == [])
    }
}
