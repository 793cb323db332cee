// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// The accesses that are held while the current code runs, and the question that this code is answering.
///
/// Functions that an accessor calls have the context of the accessor. Child tasks have the context of their task.
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

    /// The numbers of the held accesses that belong to one connection.
    func accesses(on connection: MountConnection) -> [UInt64] {
        held.suffix(ProtocolLimits.intents).filter { $0.connection === connection && $0.isHeld }.map(\.number)
    }
}
