// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// A situation of file coordination, played by real processes.
package struct ClientScenario: Sendable, CustomStringConvertible {
    package enum MountRequirement: Sendable {
        /// Also without a mount: it needs only the library, the socket and the arbiter.
        case anywhere
        /// Only without a mount: it takes long, and a mount would make no difference.
        case unmounted
        /// With a mount only: changes of files must be seen, or directories be recognized.
        case mount
    }

    /// The number of its situation (<doc:Situations>), if it has one.
    package let number: Int?
    package let sentence: String
    package let mountRequirement: MountRequirement
    /// The mount options.
    package let options: String
    /// The forced steps that it is about.
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

    package var description: String { (number.map { "H\($0): " } ?? "") + sentence }
}

/// All scenes, by the numbers of their situations.
package enum ScenarioCatalogue {
    package static let scenarios: [ClientScenario] = locking + moving + asking + telling + others
    package static let scenariosOnMount = scenarios.filter { $0.mountRequirement != .unmounted }
    package static let scenariosAnywhere = scenarios.filter { $0.mountRequirement != .mount }
}

/// Throws the message if the condition is false.
func check(_ isRight: Bool, _ what: @autoclosure () -> String) throws {
    if !isRight { throw TestFailure(what()) }
}
