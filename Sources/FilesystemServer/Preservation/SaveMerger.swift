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
    /// The number of unchanged lines that must be between changes of the two programs.
    private static let distance = 3
    /// A step on names waits at most for this time for the end of a merge.
    private static let longestWait = TimeSpan.milliseconds(200)

    private let context: MountContext
    private let handles: HandleTable
    private let sourceWatch: SourceWatch
    private let preserver: ContentPreserver
    private let overwrites: UnseenOverwrites
    private let pending = PendingMerges()

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

    /// Called before and after the work that may be a merge, when a handle is closed.
    func begin(_ handle: Handle) -> Bool {
        guard context.policies.present != nil else { return false }
        pending.begin(handle.node.id)
        return true
    }
    func end(_ node: Node) { pending.end(node.id) }

    /// Calls `next` when the save of another program is merged that has just closed the document, at the latest after 200 ms.
    /// `next` learns whether the document was waited for.
    func settle(_ reviewed: ReviewedStep, by thread: Int32, then next: @escaping @Sendable (Bool) -> Void) {
        let node = reviewed.step.node
        let saver = reviewed.review.opener?.anchor
        guard isMerged(node, by: thread), isPending(node, besides: saver) else { return next(false) }
        let limit = (Engine.now + Self.longestWait).nanoseconds
        pending.wait(for: node.id, until: limit, by: context.engine.timers) { [context] in
            context.work(on: node, for: .preserving) { next(true) }
        }
        // The merge may have ended before the step was added to the waiting ones.
        if !isPending(node, besides: saver) { pending.resume(node.id) }
    }

    /// Whether another program's save of the document is being merged, or will be when the program closes the document.
    private func isPending(_ node: Node, besides saver: Anchor?) -> Bool {
        if pending.isRunning(node.id) { return true }
        let hasOthers = overwrites.sightings.change(node) { document, _ in
            document.suspicions.contains { $0.saver.identity != saver?.identity }
        }
        return hasOthers ?? false
    }

    /// Called after a program has closed the last handle by which it wrote, and before other programs get their turn. Returns
    /// whether the document is merged, and its suspicions are settled. May block.
    func merge(
        _ suspicions: [Suspicion], into node: Node, by handle: Handle, _ saved: UnseenOverwrites.SavedContents
    )
        -> Bool
    {
        // Another program that has the file open would see the document change beneath it.
        guard node.hasName, isMerged(node, by: handle.thread), handles.all(on: node).isEmpty,
            let result = saved.bytes,
            let merged = merge(suspicions, with: result), hasPreserved(node, for: node, suspicions)
        else { return false }
        do throws(StoreError) { try preserver.detachLinks(of: node) } catch { return false }
        guard write(merged, to: node, over: result) else { return false }
        overwrites.sightings.noteMerged(node, from: result)
        resolve(suspicions, at: node.path)
        return true
    }

    /// Called before a program renames a file over a document. If a merge is possible, the file gets the merged text before it
    /// becomes the document. May block.
    func merged(_ reviewed: ReviewedStep, thread: Int32) -> ReviewedStep {
        guard let own = mergeFile(of: reviewed, thread: thread) else { return reviewed }
        return ReviewedStep(reviewed.step, reviewed.review, merged: own)
    }

    /// Called when a file with merged contents has become the document.
    func publish(_ reviewed: ReviewedStep) {
        guard case .replaces(_, let file) = reviewed.step, let own = reviewed.merged else { return }
        overwrites.sightings.noteMerged(file, from: own)
    }

    /// Returns the former contents of the file; nil if nothing is merged.
    private func mergeFile(of reviewed: ReviewedStep, thread: Int32) -> [UInt8]? {
        guard case .replaces(let document, let file) = reviewed.step, reviewed.review.view.isUnseen,
            let saver = reviewed.review.opener?.anchor, isMerged(document, by: thread),
            handles.all(on: file).isEmpty, !file.hasLinksWithoutWriters, file.presentStatus?.linkCount == 1,
            let result = overwrites.contents(of: file)
        else { return nil }
        let sightings = overwrites.sightings
        let suspicions =
            sightings.change(document) { document, _ in document.takeSuspicions(of: saver) } ?? []
        if let merged = merge(suspicions, with: result), hasPreserved(file, for: document, suspicions),
            write(merged, to: file, over: result)
        {
            resolve(suspicions, at: document.path)
            return result
        }
        sightings.change(document) { document, _ in document.suspicions += suspicions }
        return nil
    }

    /// Called when the rename of a file with merged contents has failed: the file gets its own contents back.
    func revert(_ reviewed: ReviewedStep) {
        guard case .replaces(_, let file) = reviewed.step, let own = reviewed.merged else { return }
        _ = write(own, to: file, over: own)
    }

    private func isMerged(_ node: Node, by thread: Int32) -> Bool {
        context.policy(of: .unseen, forFileAt: node.path, usedBy: thread) == .merge
    }

    /// The text with the changes of all suspected versions and of the result; nil if it is the result, or if there is none.
    private func merge(_ suspicions: [Suspicion], with result: [UInt8]) -> [UInt8]? {
        var text = result
        for suspicion in suspicions {
            guard let replaced = overwrites.contents(of: suspicion.version) else { return nil }
            guard Loss.isLoss(of: replaced, from: suspicion.base, by: text) else { continue }
            guard let base = suspicion.base, TextForm.areAlike([base, replaced, text]),
                case .clean(let merged) = ThreeWayMerge.merge(
                    base: base, ours: replaced, theirs: text, distance: Self.distance)
            else { return nil }
            text = merged
        }
        return text == result ? nil : text
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

    /// The version of the other program is no conflict: the document has its changes.
    private func resolve(_ suspicions: [Suspicion], at path: [UInt8]) {
        for suspicion in suspicions {
            let attribution = Attribution(of: suspicion.saver, path: path)
            do throws(StoreError) { _ = try context.store?.resolve(suspicion.version) } catch {
                context.engine.logAction(
                    "left the version \(suspicion.version) undecided (\(error))", attribution)
            }
            context.engine.logAction(
                "had not read the present contents; its changes were merged with them (\(suspicion.version))",
                attribution)
        }
    }

    /// Replaces the contents of a file that no program has open. Returns whether this succeeded.
    private func write(_ text: [UInt8], to node: Node, over former: [UInt8]) -> Bool {
        let change = sourceWatch.noteOwn(node, .contents)
        defer { sourceWatch.finishOwnChange(node, change) }
        do throws(Errno) {
            let file = try node.descriptor().descriptor.reopen(flags: O_RDWR)
            do throws(Errno) { try file.replaceContents(by: text) } catch {
                // Both texts are preserved. The document gets the text of its program back, as far as there is room.
                try file.replaceContents(by: former)
                throw error
            }
            context.connection.invalidateContents(of: node.id)
            return true
        } catch {
            context.engine.logAction("could not be merged (\(error))", Attribution { node.path })
            return false
        }
    }
}

extension OwnedDescriptor {
    fileprivate borrowing func replaceContents(by bytes: [UInt8]) throws(Errno) {
        let result: Result<Int, Errno> = bytes.withUnsafeBytes { buffer in
            do throws(Errno) { return .success(try write(buffer, at: 0)) } catch { return .failure(error) }
        }
        guard try result.get() == bytes.count else { throw Errno(rawValue: ENOSPC) }
        try truncateOpenFile(to: Int64(bytes.count))
    }
}
