// SPDX-License-Identifier: Apache-2.0
import CoordinationScenarios
import TestSupport
import Testing

extension Mounted {
    /// The numbered scenarios of file coordination, as programs see them that use the library on a real mount.
    @Suite struct CoordinationScenarios {
        /// Half of the scenes in each data mode: they are about turns, whichever way the data takes.
        private static var scenes: [Scene] {
            let first = (try? Lab.dataPath) == .passthrough ? 0 : 1
            let all = Catalogue.scenesOnMount
            return all.indices.filter { $0 % 2 == first }.map { all[$0] }
        }

        @Test(
            "Programs that use the library take turns as they would on Apple's systems",
            arguments: scenes)
        func play(scene: Scene) throws {
            let mount = try MountedDirectory([scene.options])
            defer { mount.abandon() }
            try Stage.prepare(mount.path)
            try mount.mount()
            let stage = Stage(on: mount, outside: try Lab.freshDirectory("outside"))
            try scene.play(stage)
            try stage.clear()
            let status = try mount.status()
            checkForced(status, except: scene.forced)
            // Where no file was opened nothing had to be decided.
            if status.options.dataPath != "undecided" { try mount.checkDataPath() }
            try mount.unmount()
        }
    }
}
