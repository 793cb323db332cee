// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// A step by which a program is about to replace, remove or change the contents of a file.
struct DocumentChange: Sendable {
    let node: Node
    /// The process that takes the step.
    let process: Int32
    /// The handle by which the program writes; nil for a step on names or on the size.
    var handle: HandleID?
    /// Whether the program may read the contents by the same handle before it writes.
    var reads = false
}

/// What a program knows of the contents that it is about to replace.
struct ChangeReview: Sendable {
    let node: Node
    let opener: Opener?
    /// The handle by which the program writes; nil for a step on names or on the size.
    let handle: HandleID?
    let view: RememberedDocument.View
    /// The generation that is replaced, and its author.
    let generation: UInt64
    let author: Anchor?
    /// The contents that the program has read; nil if they are not known.
    let base: [UInt8]?
    /// The contents that the program's children have written since; nil if they are not known.
    let written: [UInt8]?
    /// Whether the present contents should be noted, because other programs that have read them may later save.
    var needsBase = false

    /// Whether the step needs no work before it.
    var isHarmless: Bool { !view.isUnseen && !needsBase }
}

extension RememberedDocument.View {
    var isUnseen: Bool {
        if case .unseen = self { true } else { false }
    }
}

extension Handle {
    /// How the handle uses its file, for ``NodeSightings``.
    var sightingUse: NodeSightings.Use {
        if !mayWrite, !truncates { return .reads }
        return mayReadAndWrite ? .readsAndWrites : .writes
    }
}
