// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationScenarios
import Foundation
import TestSupport
import Testing
import truce

/// Plays the coordination scenarios of the mounted tests with the same programs, library and protocol, but in a plain directory
/// without a mount.
@Suite("Coordination scenarios", .serialized)
struct CoordinationScenarioTests {
    @Test(
        "Programs that use the library take turns in a directory without a mount",
        arguments: ScenarioCatalogue.scenariosAnywhere)
    func programsWithTheLibraryTakeTurnsWithoutAMount(scene: ClientScenario) throws {
        let place = try Script("cd \"$(mktemp -d)\"; mkdir stage; pwd -P").run().text.trimmingCharacters(
            in: .newlines)
        try ScenarioFixture.prepare(place + "/stage")
        try withServer(
            bounds: try MountOptions(parsing: [scene.options]).bounds,
            documents: FakeDocuments(hasRealProcesses: true)
        ) { server in
            let onlooker = try AwareProgram(server)
            let stage = ScenarioFixture(at: place + "/stage", servedBy: server.path, outside: place) {
                let snapshot: CoordinationSnapshotForm = try onlooker.call(.ps)
                return try JSONCodec.encode(snapshot)
            }
            try scene.play(stage)
            try stage.clear()
        }
        try Script("rm -r \"$1\"").run(place)
    }
}

/// Checks which of the numbered situations of file coordination are played by the scenarios of the catalogue.
@Suite("The catalogue of coordination scenarios")
struct CoordinationCatalogueTests {
    @Test(
        "a scene plays each numbered situation, or a table gives the reason why no scene can",
        arguments: ScenarioCatalogue.numbers)
    func aScenePlaysEachSituationOrATableExcludesTheSituation(number: Int) {
        let isPlayed = ScenarioCatalogue.scenarios.contains { $0.number == number }
        if let reason = ScenarioCatalogue.uncovered[number] {
            #expect(!isPlayed, "scenario \(number) is played, and so there is no reason: \(reason)")
        } else {
            #expect(isPlayed, "no scene plays scenario \(number)")
        }
    }

    @Test func scenesHaveKnownNumbersAndUniqueTitles() {
        let played = Set(ScenarioCatalogue.scenarios.compactMap(\.number))
        #expect(played.subtracting(ScenarioCatalogue.numbers).isEmpty)
        #expect(
            Set(ScenarioCatalogue.scenarios.map(\.description)).count == ScenarioCatalogue.scenarios.count)
        print(
            "scenarios: \(played.count) played by \(ScenarioCatalogue.scenarios.count) scenes, \(ScenarioCatalogue.scenariosAnywhere.count) "
                + "of them without a mount as well; \(ScenarioCatalogue.uncovered.count) elsewhere"
        )
    }
}
