// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import TextMerge
import VersionStore

/// Merges the changes of two programs into a document whose setting is `unseen = "merge"` (D245).
///
/// A program saves over contents that it has not read. If both texts were made from one known text and their changes are apart,
/// the document gets the changes of both. The contents of both programs are preserved before that. In all other cases the
/// document stays as its program has written it.
///
/// The program that has saved does not know the merged text. So its contents are the base of its next save
/// (``Sightings/noteMerged(_:from:)``), and this save is merged again.
final class SaveMerger: Sendable {
    private enum Outcome {
        /// Nothing of the replaced contents is missing in what the program has saved.
        case needless
        case merged([UInt8])
        /// The changes are too close to each other, or the contents are no texts that can be merged.
        case conflict
    }

    /// The number of unchanged lines that must be between changes of the two programs.
    private static let distance = 3
    /// A comparison takes at most some tens of milliseconds, because other programs wait for it.
    private static let limit = DifferenceLimit(differences: 2_000, comparisons: 10_000_000)

    let context: MountContext
    private let handles: HandleTable
    let sourceWatch: SourceWatch
    private let preserver: ContentPreserver
    private let overwrites: UnseenOverwrites
    private var merges: PendingMerges { overwrites.merges }

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ preserver: ContentPreserver,
        _ overwrites: UnseenOverwrites
    ) {
        self.context = context
        handles = tree.handles
        self.sourceWatch = sourceWatch
        self.preserver = preserver
        self.overwrites = overwrites
    }

    // MARK: Saves in place

    /// Called when a handle is closed. Returns the suspicions that the program's contents now decide. If there are any,
    /// ``merge(_:into:then:)`` must follow.
    func noteClosed(_ handle: Handle) -> [Suspicion] {
        let node = handle.node
        guard node.isRemembered else { return [] }
        let isPending = merges.isUsed && merges.isPending(node.id)
        let suspicions = overwrites.sightings.noteClosed(handle, isMerged: isPending)
        if merges.isUsed, suspicions.isEmpty, !overwrites.hasSuspicions(node) { merges.cancel(node.id) }
        return suspicions
    }

    /// Called after a program has closed the last handle by which it wrote, and before other programs get their turn. Calls
    /// `next` on a worker: with nil if the document is merged and its suspicions are settled, otherwise with its contents.
    func merge(
        _ suspicions: [Suspicion], into node: Node,
        then next: @escaping @Sendable (UnseenOverwrites.SavedContents?) -> Void
    ) {
        let mayMerge = merges.begin(node.id)
        context.work(on: node, for: .preserving) { [self] in
            let saved = overwrites.contents(of: node, for: suspicions)
            let isMerged = mayMerge && merge(suspicions, into: node, over: saved.bytes)
            if mayMerge {
                merges.end(node.id, isExpected: overwrites.hasSuspicions(node))
            } else {
                merges.cancel(node.id)
            }
            next(isMerged ? nil : saved)
        }
    }

    private func merge(_ suspicions: [Suspicion], into node: Node, over saved: [UInt8]?) -> Bool {
        // Another program that has the file open would see the document change beneath it.
        guard let saved, node.hasName, handles.all(on: node).isEmpty,
            let merged = merged(suspicions, with: saved, in: node, of: node)
        else { return false }
        do throws(StoreError) { try preserver.detachLinks(of: node) } catch { return false }
        guard merges.beginWriting(node.id), write(merged, to: node, over: saved, settling: suspicions) else {
            return false
        }
        overwrites.sightings.noteMerged(node, from: saved)
        return true
    }

    // MARK: Saves by a rename

    /// Called before a program renames a file over a document. If a merge is possible, the file gets the merged text before it
    /// becomes the document. May block.
    func merged(_ reviewed: ReviewedStep, thread: Int32) -> ReviewedStep {
        guard case .replaces(let document, let file) = reviewed.step, reviewed.review.view.isUnseen,
            let saver = reviewed.review.opener?.anchor, overwrites.isMerged(document, by: thread)
        else { return reviewed }
        let sightings = overwrites.sightings
        let suspicions =
            sightings.change(document) { document, _ in document.takeSuspicions(of: saver) } ?? []
        guard !suspicions.isEmpty else { return reviewed }
        let mayMerge = merges.begin(file.id, unexpected: true)
        let own = mayMerge ? merge(suspicions, of: document, into: file) : nil
        if mayMerge { merges.end(file.id) }
        guard let own else {
            sightings.change(document) { document, _ in document.suspicions += suspicions }
            return reviewed
        }
        return ReviewedStep(reviewed.step, reviewed.review, merged: own)
    }

    /// Returns the former contents of the file; nil if it is not merged.
    private func merge(_ suspicions: [Suspicion], of document: Node, into file: Node) -> [UInt8]? {
        guard handles.all(on: file).isEmpty, !file.hasLinksWithoutWriters,
            file.presentStatus?.linkCount == 1, let saved = overwrites.contents(of: file),
            let merged = merged(suspicions, with: saved, in: file, of: document),
            merges.beginWriting(file.id), write(merged, to: file, over: saved, settling: suspicions)
        else { return nil }
        return saved
    }

    /// Called when a file with merged contents has become the document.
    func publish(_ reviewed: ReviewedStep) {
        guard case .replaces(_, let file) = reviewed.step, let own = reviewed.merged else { return }
        overwrites.sightings.noteMerged(file, from: own)
    }

    /// Called when the rename of a file with merged contents has failed: the file gets its own contents back.
    func revert(_ reviewed: ReviewedStep) {
        guard case .replaces(_, let file) = reviewed.step, let own = reviewed.merged,
            let merged = overwrites.contents(of: file)
        else { return }
        _ = write(own, to: file, over: merged, settling: [])
    }

    // MARK: Saves that move the document aside

    /// Called when a renamed file has got the name of a document that a program has moved aside. Merges the contents on a worker;
    /// requests for the file wait for this. Calls `next` if the file is merged.
    func noteArrival(
        of node: Node, as name: NameBytes, in directory: Node, by thread: Int32,
        then next: @escaping @Sendable () -> Void
    ) {
        let suspicions = overwrites.noteArrival(of: node, as: name, in: directory, by: thread, isSaved: true)
        guard !suspicions.isEmpty, overwrites.isMerged(node, by: thread),
            merges.begin(node.id, unexpected: true)
        else { return overwrites.settleSoon(suspicions, by: node) }
        context.work(on: node, for: .preserving) { [self] in
            let saved = overwrites.contents(of: node, for: suspicions)
            let isMerged = merge(suspicions, into: node, over: saved.bytes)
            merges.end(node.id)
            if isMerged { return next() }
            overwrites.settle(suspicions, by: saved, at: node.path)
        }
    }

    // MARK: Texts

    /// Returns the text with the changes of both programs; nil if the file stays as it is. Before that, preserves the contents
    /// of the program that saves, unless nothing is lost.
    private func merged(
        _ suspicions: [Suspicion], with saved: [UInt8], in file: Node, of document: Node
    ) -> [UInt8]? {
        let outcome = outcome(of: suspicions, with: saved, in: file)
        if case .needless = outcome { return nil }
        guard hasPreserved(file, for: document, suspicions), case .merged(let text) = outcome else {
            return nil
        }
        return text
    }

    private func outcome(of suspicions: [Suspicion], with saved: [UInt8], in file: Node) -> Outcome {
        var text = saved
        for suspicion in suspicions {
            guard let replaced = overwrites.contents(of: suspicion.version) else { return .conflict }
            guard Loss.isLoss(of: replaced, from: suspicion.base, by: text, limit: Self.limit) else {
                continue
            }
            guard hasRights(of: suspicion.version, file), let merged = merge(suspicion, replaced, with: text)
            else { return .conflict }
            text = merged
        }
        return text == saved ? .needless : .merged(text)
    }

    /// Merges the replaced contents with the text of the program that saves. Returns nil if this is impossible.
    private func merge(
        _ suspicion: Suspicion, _ replaced: [UInt8], with text: [UInt8]
    ) -> [UInt8]? {
        guard let base = suspicion.base else { return nil }
        if let merged = merge(replaced, text, from: base) { return merged }
        // What the program's children have written is the base if the program's text has all of it.
        guard let written = suspicion.written,
            !Loss.isLoss(of: written, from: base, by: text, limit: Self.limit)
        else { return nil }
        return merge(replaced, text, from: written)
    }

    private func merge(_ replaced: [UInt8], _ text: [UInt8], from base: [UInt8]) -> [UInt8]? {
        guard TextForm.areAlike([base, replaced, text]),
            case .clean(let merged) = ThreeWayMerge.merge(
                base: base, ours: replaced, theirs: text, distance: Self.distance, limit: Self.limit),
            merged.count <= UnseenOverwrites.mostCompared
        else { return nil }
        return merged
    }

    /// Whether a file has the rights of a version. Otherwise a merge could show contents to users who may not read them (D247).
    private func hasRights(of version: VersionID, _ file: Node) -> Bool {
        guard let record = context.store?.record(of: version) else { return false }
        do throws(Errno) {
            return try FileRights(of: file.descriptor().descriptor) == record.rights
        } catch {
            return false
        }
    }

    /// Preserves the contents of the program that saves, as a version of the document. Returns whether this succeeded.
    private func hasPreserved(_ file: Node, for document: Node, _ suspicions: [Suspicion]) -> Bool {
        guard let store = context.store else { return false }
        let provenance = Provenance(author: suspicions.first?.saver.actor)
        do throws(StoreError) {
            let request = PreservationRequest(
                path: document.path, cause: .merge,
                closed: ContentPreserver.closedDirectories(above: document),
                user: suspicions.first?.saver.user, provenance: provenance, durability: .deferred)
            _ = try store.preserveByCopying(
                try ContentPreserver.descriptor(of: file).descriptor, for: request)
            return true
        } catch {
            return false
        }
    }
}
