// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// A scene that shows one situation of file coordination. Real processes take part in it.
package struct ClientScenario: Sendable, CustomStringConvertible {
    package enum MountRequirement: Sendable {
        /// The scene runs with a mount and without a mount, because it needs only the library, the socket and the arbiter.
        case anywhere
        /// The scene runs without a mount only, because it takes long and a mount would make no difference.
        case unmounted
        /// The scene runs with a mount only, because the daemon must see changes of files or recognize directories.
        case mount
    }

    /// The number of the situation that this scene shows (<doc:Situations>); nil if it shows none of them.
    package let number: Int?
    package let sentence: String
    package let mountRequirement: MountRequirement
    /// The options with which the mount is made.
    package let options: String
    /// The forced steps that the scene provokes. If another forced step happens, the test fails.
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

/// All scenes, in the order of the numbers of their situations.
package enum ScenarioCatalogue {
    package static let scenarios: [ClientScenario] = locking + moving + asking + telling + versions + others
    package static let scenariosOnMount = scenarios.filter { $0.mountRequirement != .unmounted }
    package static let scenariosAnywhere = scenarios.filter { $0.mountRequirement != .mount }
}

/// Throws an error with the text `what` if the condition is false.
func check(_ isRight: Bool, _ what: @autoclosure () -> String) throws {
    if !isRight { throw TestFailure(what()) }
}
