// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite struct FloorTests {
    @Test("No service of the file system server uses a service of a higher layer")
    func noServiceUsesAServiceOfAHigherLayer() {
        #expect(Repository.files.flatMap(FloorLaws.findings) == [])
    }

    @Test("Each type in the list of layers exists in the file system server")
    func eachTypeInTheListOfLayersExists() {
        let code = Repository.files.filter { $0.isBelow(FloorLaws.root) }.flatMap(\.codeLines)
        let declared = code.compactMap { line in
            line.firstMatch(of: /\b(?:class|struct|enum) ([A-Z]\w*)/).map { String($0.1) }
        }
        #expect(
            FloorLaws.floors.reduce(into: Set<String>()) { $0.formUnion($1.types) }.subtracting(declared)
                == [])
    }

    @Test(
        "The check finds a planted use of a service of a higher layer",
        arguments: [
            ("FileTree/Node.swift", "let watch: SourceWatch"),
            ("Data/DataPlane.swift", "init(_ closer: HandleCloser) {}"),
            ("Documents/SaveLifecycle.swift", "extension RetryCoordinator {}"),
            ("Retries/RetryWait.swift", "let lookups: [Lookup] = []"),
            ("Operations/Open/Open.swift", "unowned let root: CoordinatedFilesystem"),
            ("Elsewhere/A.swift", "let a = 1"),
        ])
    func aPlantedUseOfAHigherLayerIsFound(place: String, code: String) {
        let lawful = "// SourceWatch\nlet a = Outcome.Open\nlet b = \"Mount\"\n"
        let file = TextFile(path: FloorLaws.root + "/" + place, text: lawful + code)
        #expect(FloorLaws.findings(in: file).count == 1)
    }

    @Test("A service may use services of its own layer and of lower layers")
    func servicesOfLowerLayersMayBeUsed() {
        let text = "let tree: FileTree\nlet identity: DocumentIdentity\n"
        let file = TextFile(path: FloorLaws.root + "/Documents/SaveLifecycle.swift", text: text)
        #expect(FloorLaws.findings(in: file) == [])
    }
}
