// SPDX-License-Identifier: Apache-2.0
import CoordinationScenarios
import TestSupport
import Testing

extension MountTests {
    /// Programs that use the library play the numbered situations of file coordination on a real mount.
    @Suite struct CoordinationLibraryTests {
        /// Each data mode plays half of the scenarios, because turns do not depend on the data path.
        private static var scenes: [ClientScenario] {
            let first = (try? Lab.dataPath) == .passthrough ? 0 : 1
            let all = ScenarioCatalogue.scenariosOnMount
            return all.indices.filter { $0 % 2 == first }.map { all[$0] }
        }

        @Test(
            "Programs that use the library on a mount take turns as on Apple's systems",
            arguments: scenes)
        func libraryScenariosMatchApplesBehaviour(scene: ClientScenario) throws {
            let mount = try MountedDirectory([scene.options])
            defer { mount.abandon() }
            try ScenarioFixture.prepare(mount.path)
            try mount.mount()
            let stage = ScenarioFixture(on: mount, outside: try Lab.freshDirectory("outside"))
            try scene.play(stage)
            try stage.clear()
            let status = try mount.status()
            checkForcedSteps(status, except: scene.forced)
            // If no program opened a file, the daemon has chosen no data path.
            if status.options.dataPath != "undecided" { try mount.checkDataPath() }
            try mount.unmount()
        }
    }
}
