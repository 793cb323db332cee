// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import TestSupport
import Testing

/// Runs each file in `Scenarios`. A scenario file lists events for the arbiter and the expected effects; its comments cite the
/// rules that it shows.
@Suite("Scenario files")
struct ScenarioTests {
    static let directory = String(#filePath.dropLast("ScenarioTests.swift".count)) + "Scenarios"
    static let names = files(below: directory, extension: "scenario").map {
        $0.dropFirst(directory.count + 1)
    }
    .map { String($0.dropLast(".scenario".count)) }

    @Test(
        "after each command of a scenario file, the arbiter prints the effects that the file lists",
        arguments: names)
    func theArbiterPrintsTheExpectedEffects(name: String) throws {
        let path = "\(Self.directory)/\(name).scenario"
        var scenario = Scenario(parsing: try #require(readFile(path)))
        #expect(!scenario.steps.isEmpty)
        var world = ScenarioInterpreter()
        for index in scenario.steps.indices {
            let output = world.run(scenario.steps[index].command)
            let actual = output.split(separator: "\n").map(String.init)
            if isUpdatingScenarios {
                scenario.steps[index].expected = actual
            } else {
                #expect(actual == scenario.steps[index].expected, "\(scenario.steps[index].command)")
            }
        }
        if isUpdatingScenarios { writeFile(path, scenario.text) }
    }
}
