// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// What the code that runs now runs within: accesses that are held meanwhile, and a request that it answers.
///
/// Goes along with the thread through an accessor, and with a task and what it starts.
struct AccessContext: Sendable {
    @TaskLocal static var current = AccessContext()

    private(set) var held: [HeldAccess] = []
    private(set) var question: IncomingQuestion?

    func within(_ accesses: [HeldAccess]) -> AccessContext {
        var inner = self
        inner.held += accesses
        return inner
    }

    func answering(_ question: IncomingQuestion) -> AccessContext {
        var inner = self
        inner.question = question
        return inner
    }

    /// The accesses of one connection, by number.
    func accesses(on connection: MountConnection) -> [UInt64] {
        held.suffix(ProtocolLimits.intents).filter { $0.connection === connection && $0.isHeld }.map(\.number)
    }
}
