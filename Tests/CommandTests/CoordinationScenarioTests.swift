// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationScenarios
import Foundation
import TestSupport
import Testing
import truce

/// The same programs, library and protocol as in the mounted tests, with a plain directory in place of the mount.
@Suite("Coordination scenarios", .serialized)
struct CoordinationScenarioTests {
    @Test(
        "Programs that use the library take turns where nothing is mounted",
        arguments: Catalogue.scenesAnywhere)
    func play(scene: Scene) throws {
        let place = try Script("cd \"$(mktemp -d)\"; mkdir stage; pwd -P").run().text.trimmingCharacters(
            in: .newlines)
        try Stage.prepare(place + "/stage")
        try withServer(
            bounds: try MountOptions(parsing: [scene.options]).bounds,
            documents: FakeDocuments(hasRealProcesses: true)
        ) { server in
            let onlooker = try AwareProgram(server)
            let stage = Stage(at: place + "/stage", servedBy: server.path, outside: place) {
                let census: CensusForm = try onlooker.call(.ps)
                return try JSONForm.encode(census)
            }
            try scene.play(stage)
            try stage.clear()
        }
        try Script("rm -r \"$1\"").run(place)
    }
}

/// Which of the numbered scenarios of file coordination the catalogue shows.
@Suite("Coordination scenarios, all of them")
struct CoordinationCatalogueTests {
    @Test("each scenario is played, or has a reason why it is not", arguments: Catalogue.numbers)
    func isPlayedOrElsewhere(number: Int) {
        let isPlayed = Catalogue.scenes.contains { $0.number == number }
        if let reason = Catalogue.elsewhere[number] {
            #expect(!isPlayed, "scenario \(number) is played, and so there is no reason: \(reason)")
        } else {
            #expect(isPlayed, "no scene plays scenario \(number)")
        }
    }

    @Test func nothingElseIsPlayed() {
        let played = Set(Catalogue.scenes.compactMap(\.number))
        #expect(played.subtracting(Catalogue.numbers).isEmpty)
        #expect(Set(Catalogue.scenes.map(\.description)).count == Catalogue.scenes.count)
        print(
            "scenarios: \(played.count) played by \(Catalogue.scenes.count) scenes, \(Catalogue.scenesAnywhere.count) "
                + "of them without a mount as well; \(Catalogue.elsewhere.count) elsewhere"
        )
    }
}
