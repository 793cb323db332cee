// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// One of the numbered scenarios of Apple's file coordination, played by real processes.
package struct ClientScenario: Sendable, CustomStringConvertible {
    package enum MountRequirement: Sendable {
        /// Also where nothing is mounted: it takes no more than the library, the socket and the arbiter.
        case anywhere
        /// Only there: it takes long, and a mount would make no difference.
        case unmounted
        /// Changes of files have to be seen, or directories be known as such.
        case mount
    }

    /// Nil if it shows something that nobody has numbered.
    package let number: Int?
    package let sentence: String
    package let mountRequirement: MountRequirement
    /// Of the mount.
    package let options: String
    /// What it is about that somebody is passed over.
    package let forced: Set<ForcedStep>
    package let play: @Sendable (ScenarioFixture) throws -> Void

    init(
        _ number: Int?, _ sentence: String, _ mountRequirement: MountRequirement = .anywhere,
        options: String = "ask-again=0ms",
        forced: Set<ForcedStep> = [], play: @escaping @Sendable (ScenarioFixture) throws -> Void
    ) {
        (self.number, self.sentence, self.mountRequirement) = (number, sentence, mountRequirement)
        (self.options, self.forced, self.play) = (options, forced, play)
    }

    package var description: String { (number.map { "\($0). " } ?? "") + sentence }
}

/// All scenes, by the numbers of the scenarios.
package enum ScenarioCatalogue {
    package static let scenarios: [ClientScenario] = locking + moving + asking + telling + others
    package static let scenariosOnMount = scenarios.filter { $0.mountRequirement != .unmounted }
    package static let scenariosAnywhere = scenarios.filter { $0.mountRequirement != .mount }
}

/// What a scene finds when it is not as it should be.
func check(_ isRight: Bool, _ what: @autoclosure () -> String) throws {
    if !isRight { throw TestFailure(what()) }
}
