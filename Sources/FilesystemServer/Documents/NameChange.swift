// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// A change of a name in a directory: the name, the directory, and the caller that makes the change.
struct NameChange: Sendable {
    let name: NameBytes
    let directory: Node
    let caller: Caller
    let isOutOfBand: Bool

    init(_ name: NameBytes, in directory: Node, caller: Caller) {
        self.name = name
        self.directory = directory
        self.caller = caller
        isOutOfBand = false
    }

    /// A change that a program made out of band. Its caller is unknown.
    init(outOfBand name: NameBytes, in directory: Node) {
        self.name = name
        self.directory = directory
        caller = .nobody
        isOutOfBand = true
    }

    var subject: NameSubject { NameSubject(name, in: directory, thread: caller.thread) }

    func isSame(as other: NameChange) -> Bool { directory === other.directory && name == other.name }
}

/// The result of the check whether a program takes a name away as a step of a save.
struct SaveAssessment: Sendable {
    let saver: SavingProcess
    /// The reason why the removal of the name counts as a step of a save; nil if it is a move or a deletion.
    let evidence: PendingSave.Evidence?
    let audience: PendingSave.Audience
    var consultation = ConsultationTime.before

    /// When the presenters of the directories above are asked whether they agree to a deletion. The value has no meaning for a
    /// step of a save.
    enum ConsultationTime: Sendable {
        case before
        /// Presenters are asked a moment after the removal, unless another file has got the name by that time
        /// (``DeferredDeletions``).
        case afterwards
    }

    /// Whether the document stays with its name and waits for another file. If false, the document moves along with its file.
    var keepsName: Bool { evidence.map { $0 != .move } ?? false }
}

extension NameChange {
    /// Whether the name is that of a helper file, for which presenters get no events.
    ///
    /// A companion file of a database also counts as a helper file here, because a program creates and removes it at each
    /// commit.
    var isPrivate: Bool { known.isPrivate }
    var known: NodeName { NodeName(name: name, directory: directory) }
}

extension NodeName {
    /// Whether the name is that of a helper file, or of a companion file that a database has beside it.
    var isPrivate: Bool {
        switch Node.itemClass(of: name, in: directory) {
        case .private: true
        case .database: ItemClass.isDatabaseCompanion(name.bytes)
        case .document, .log, .background: false
        }
    }
}

/// A changed name, for an entry of the journal. The entry also shows the thread and the time of the change.
final class NameSubject: JournalSubject {
    private let name: NameBytes
    private let directory: Node
    private let thread: Int32
    private let acted = Engine.now

    init(_ name: NameBytes, in directory: Node, thread: Int32) {
        self.name = name
        self.directory = directory
        self.thread = thread
    }

    var attribution: Attribution {
        Attribution(thread: thread, at: acted) { [name, directory] in directory.path(of: name) }
    }
}
