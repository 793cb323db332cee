// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// What the code that runs now runs within: accesses that are held meanwhile, and a request that it answers.
///
/// Goes along with the thread through an accessor, and with a task and what it starts.
struct Nesting: Sendable {
    @TaskLocal static var current = Nesting()

    private(set) var held: [HeldAccess] = []
    private(set) var question: PresentedQuestion?

    func within(_ accesses: [HeldAccess]) -> Nesting {
        var inner = self
        inner.held += accesses
        return inner
    }

    func answering(_ question: PresentedQuestion) -> Nesting {
        var inner = self
        inner.question = question
        return inner
    }

    /// The accesses of one connection, by number.
    func accesses(on link: MountLink) -> [UInt64] {
        held.suffix(ProtocolLimits.intents).filter { $0.link === link && $0.isHeld }.map(\.number)
    }
}
