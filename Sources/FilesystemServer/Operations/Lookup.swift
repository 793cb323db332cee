// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Answers lookups of names, and requests for attributes and link targets.
final class Lookup: Sendable {
    let context: MountContext
    let tree: FileTree
    let preserver: ContentPreserver
    let shownAttributes: ShownAttributes
    let identity: DocumentIdentity
    let coordinator: RetryCoordinator
    let attributeReplies: AttributeReplies
    let unsavedStats: UnsavedStats
    let engine: Engine
    let submounts: Submounts
    let nodes: NodeTable
    let memoryTrimmer: MemoryTrimmer
    let sourceWatcher: SourceWatcher?
    let saves: SaveTracker
    let documents: DocumentTable
    let expectedRetries: ExpectedRetries<PendingOpen>
    let retries: RetryTable

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch,
        _ shownAttributes: ShownAttributes, _ preserver: ContentPreserver, _ saves: SaveTracker,
        _ events: DocumentEvents, _ identity: DocumentIdentity, _ coordinator: RetryCoordinator,
        _ attributeReplies: AttributeReplies, _ unsavedStats: UnsavedStats
    ) {
        self.context = context
        self.tree = tree
        self.preserver = preserver
        self.shownAttributes = shownAttributes
        self.identity = identity
        self.coordinator = coordinator
        self.attributeReplies = attributeReplies
        self.unsavedStats = unsavedStats
        engine = context.engine
        submounts = context.submounts
        nodes = tree.nodes
        memoryTrimmer = tree.memoryTrimmer
        sourceWatcher = sourceWatch.watcher
        self.saves = saves
        documents = events.documents
        expectedRetries = coordinator.expectedRetries
        retries = coordinator.retries
    }

    func lookUp(_ name: borrowing FileName, in parent: NodeID, reply: consuming Reply) {
        guard !name.isSelfOrParent else {
            return lookUpByNumber(parent, asksForParent: name == "..", reply: reply)
        }
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.noEntry) }
        let caller = reply.caller
        let thread = caller.thread
        do throws(Errno) {
            let below = try directory.descriptor()
            var file: SharedDescriptor?
            if mustStayAtHand(in: directory, for: thread) {
                file = SharedDescriptor(try below.descriptor.path(of: name), of: directory.budget)
            }
            let status =
                if let file { try file.descriptor.status() } else { try below.descriptor.status(of: name) }
            if classifyLookup(at: name, in: directory, by: caller) == .traversal {
                endCreateRetry(of: name.copy(), in: directory, by: caller)
                unsavedStats.endStatRetry(of: thread, finding: status)
            }
            introduce(status, as: name.copy(), in: directory, keeping: file, reply: reply)
        } catch {
            let look = classifyLookup(at: name, in: directory, by: caller)
            if look == .traversal, error == .noEntry { abandonRetry(name.copy(), in: directory, by: thread) }
            // If the thread was retrying an open, the open is given up. It is taken up again only if the kernel's next
            // lookup of the name finds a file.
            let isReturn =
                error == .noEntry && !expectedRetries.expectsNone && coordinator.giveUpRetry(of: thread)
            if error == .noEntry, isReturn || look == .retry {
                retries.noteMissingName(at: name.copy().bytes, in: directory.id, by: caller, at: Engine.now)
            }
            // The kernel repeats a lookup only once. If this is the repeated lookup and the name is missing, the answer
            // is ENOENT.
            guard error == .noEntry, look == .first, !isReturn else { return reply.fail(error) }
            guard saves.hasNoPendingSaves else {
                return coordinator.answerMissing(name.copy(), in: directory, reply: reply)
            }
            guard context.namesChangeOnlyHere(directory) else { return reply.fail(error) }
            // For only 1 s, the kernel may remember that the name is missing. A program that opened the source before
            // the mount can make the name out of band.
            reply.missing(valid: .brief)
        }
    }

    /// Returns whether a file that a lookup has found must stay open until its thread uses it. This is so if the kernel
    /// would not repeat the lookup (D214).
    private func mustStayAtHand(in directory: Node, for thread: Int32) -> Bool {
        if directory.isStaleBelow || expectedRetries[thread] != nil { return true }
        return !retries.isEmptyForLookups && retries.isRetrying(thread, at: Engine.now)
    }

    /// Returns how a lookup, which was just made, is related to a retry of its thread.
    private func classifyLookup(at name: borrowing FileName, in directory: Node, by caller: Caller)
        -> RetryTable.LookupRole
    {
        guard !retries.isEmptyForLookups else { return .first }
        return retries.classifyLookup(at: name.copy().bytes, in: directory.id, by: caller, at: Engine.now)
    }

    /// Called when a lookup has found a file. Ends the thread's retry if its request was to make this name: because the
    /// name exists now, the kernel does not send that request.
    private func endCreateRetry(of name: NameBytes, in directory: Node, by caller: Caller) {
        let retry = retries.takeRetry(by: caller.thread) { retry in
            guard case .making(let change)? = retry.cause.request?.kind else { return false }
            return change.directory === directory && change.name == name
        }
        guard let retry else { return }
        coordinator.giveUp(retry.cause.request)
        retries.noteRetryArrival(of: caller, at: Engine.now)
    }

    /// Called when a lookup has found no file. If its thread was retrying the removal of this name, ends the claim of
    /// that removal, so that no other claim waits for it.
    ///
    /// The kernel may look the name up once more before it gives up. So the retry itself is forgotten a moment later.
    private func abandonRetry(_ name: NameBytes, in directory: Node, by thread: Int32) {
        retries.expectRetrySoon(by: thread, at: Engine.now)
        guard let retry = retries[thread], let request = retry.cause.request,
            let change = request.vacated, change.directory === directory, change.name == name
        else { return }
        coordinator.abandon(request)
        coordinator.forget(retry.serial, of: thread)
    }

    /// Answers a lookup with the node of the file that was found, and counts this lookup of the node.
    private func introduce(
        _ status: FileStatus, as name: NameBytes, in directory: Node, keeping file: SharedDescriptor?,
        reply: consuming Reply
    ) {
        let node = nodes.introduce(status, as: name, in: directory, isLocked: false)
        if let file { _ = node.cache(file) }
        correctName(of: node, foundAs: name, in: directory, status)
        if !documents.awaitsNothing { identity.foundAwaited(node, as: name, in: directory) }
        let thread = retries.isEmpty && expectedRetries.expectsNone ? 0 : reply.caller.thread
        answer(node, status, attributes: attributeReplies.validity(of: node, to: thread), reply: reply)
    }

    /// Answers a lookup with its node. The lookup was already counted. If the caller no longer waits for the answer,
    /// the count is reduced.
    func answer(_ node: Node, _ status: FileStatus, attributes: Validity, reply: consuming Reply) {
        let isKnown = reply.entry(
            node.id, generation: node.generation, shownAttributes.shown(status, of: node),
            names: context.validity(of: node),
            attributes: attributes)
        if !isKnown { nodes.forget(node.id, lookups: 1) }
    }

    /// Changes the name of a node to the name by which a lookup has found it, if that name still leads to the node.
    ///
    /// The kernel looks up a name without a lock if it already knows the name. So the file may have been renamed after the
    /// lookup found it.
    private func correctName(
        of node: Node, foundAs name: NameBytes, in directory: Node, _ status: FileStatus
    ) {
        guard !node.isCalled(name, in: directory) else { return }
        let isOtherLink = status.linkCount > 1 && !status.isDirectory
        guard !isOtherLink || !node.retainsName(insteadOf: name, in: directory) else {
            if engine.hasAwareClients { node.noteOtherName(name, in: directory) }
            return
        }
        do throws(Errno) {
            guard FileKey(try directory.status(of: name)) == node.key else { return }
            if !isOtherLink { sourceWatcher?.noteFormerName(of: node, ifOther: name, in: directory) }
            node.setName(name, in: directory, isOneOfSeveral: isOtherLink)
        } catch {
            // The name does not exist any more.
            return
        }
    }

    func forget(_ node: NodeID, lookups: UInt64) {
        nodes.forget(node, lookups: lookups)
        memoryTrimmer.noteForgotten()
    }

    func attributes(of id: NodeID, hasHandle: Bool, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        if engine.isAnythingUnsaved, !hasHandle {
            return unsavedStats.attributesOnceSaved(of: node, reply: reply)
        }
        attributeReplies.attributesNow(of: node, reply: reply)
    }

    func readLink(_ id: NodeID, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        do throws(Errno) {
            reply.linkTarget(try node.descriptor().descriptor.linkTarget())
        } catch {
            reply.fail(error)
        }
    }

    /// Checks the caller's rights, as for access(2). The kernel never sends this request here: this mount always has
    /// `default_permissions`, so the kernel checks the rights itself.
    func checkAccess(to id: NodeID, mask: Int32, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        do throws(Errno) {
            try node.descriptor().descriptor.checkAccess(mask)
            reply.succeed()
        } catch {
            reply.fail(error)
        }
    }

    func statistics(of id: NodeID, reply: consuming Reply) {
        let node = nodes[id] ?? nodes.root
        do throws(Errno) {
            reply.statistics(try node.descriptor().descriptor.filesystemStatus())
        } catch {
            reply.fail(error)
        }
    }
}
