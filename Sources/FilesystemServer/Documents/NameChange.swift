// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// A request that changes a name in a directory.
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

    /// A name that another program has changed out of band.
    init(outOfBand name: NameBytes, in directory: Node) {
        self.name = name
        self.directory = directory
        caller = .nobody
        isOutOfBand = true
    }

    var subject: NameSubject { NameSubject(name, in: directory, thread: caller.thread) }

    func isSame(as other: NameChange) -> Bool { directory === other.directory && name == other.name }
}

/// The process that takes a name away, and the evidence for a step of a save, if there is any.
struct SaveAssessment: Sendable {
    let saver: SavingProcess
    /// Nil if the name is only taken away, without a save.
    let evidence: PendingSave.Evidence?
    let audience: PendingSave.Audience
    var consultation = ConsultationTime.before

    /// When presenters of directories above are asked about the deletion, if it is one.
    enum ConsultationTime: Sendable {
        case before
        /// After the name was free for a moment (``DeferredDeletions``).
        case afterwards
    }

    /// Whether the document stays with its name, and does not move with the file.
    var keepsName: Bool { evidence.map { $0 != .move } ?? false }
}

extension NameChange {
    /// Whether the name is that of a program's own helper file, which concerns no presenter.
    ///
    /// The files that a database keeps beside itself count as well, because they come and go with each commit.
    var isPrivate: Bool { known.isPrivate }
    var known: NodeName { NodeName(name: name, directory: directory) }
}

extension NodeName {
    /// Whether the name is that of a helper file or of a database's companion file.
    var isPrivate: Bool {
        switch Node.itemClass(of: name, in: directory) {
        case .private: true
        case .database: ItemClass.isDatabaseCompanion(name.bytes)
        case .document, .log, .background: false
        }
    }
}

/// A name in a directory, for the journal.
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
