// SPDX-License-Identifier: Apache-2.0
import CoordinationScenarios
import TestSupport
import Testing

extension MountTests {
    /// The numbered situations of file coordination, played by programs that use the library on a real mount.
    @Suite struct CoordinationLibraryTests {
        /// Half of the scenarios in each data mode: they test turns, which do not depend on the data path.
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
            // If no file was opened, no data path was chosen.
            if status.options.dataPath != "undecided" { try mount.checkDataPath() }
            try mount.unmount()
        }
    }
}
