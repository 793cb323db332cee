// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// The last step of an open: connects the handle with the file's data, adds the handle to the table, and answers the
/// request.
final class HandleOpener: Sendable {
    private let context: MountContext
    private let preserver: ContentPreserver
    private let data: DataPlane
    private let closePreserver: ClosePreserver
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let coordinator: RetryCoordinator
    private let closer: HandleCloser
    private let engine: Engine
    private let submounts: Submounts
    private let unseenOverwrites: UnseenOverwrites
    private let sightings: Sightings

    init(
        _ context: MountContext, _ unseenOverwrites: UnseenOverwrites, _ data: DataPlane,
        _ preserver: ContentPreserver, _ closePreserver: ClosePreserver, _ events: DocumentEvents,
        _ identity: DocumentIdentity, _ coordinator: RetryCoordinator, _ closer: HandleCloser
    ) {
        self.context = context
        self.preserver = preserver
        self.data = data
        self.closePreserver = closePreserver
        self.events = events
        self.identity = identity
        self.coordinator = coordinator
        self.closer = closer
        engine = context.engine
        submounts = context.submounts
        self.unseenOverwrites = unseenOverwrites
        sightings = unseenOverwrites.sightings
    }

    /// Opens a file and answers the request. The claim of the handle was granted before, or the file needs no claim.
    ///
    /// `passage`: until its end, the file is not merged. From then on, the handle prevents that.
    func open(_ handle: Handle, in passage: MergePassage?, reply: consuming Reply) {
        let isPresented = events.identifyWriter(of: handle)
        do throws(Errno) {
            // The kernel checks only whether this mount forbids execution. The mount on which the file lies is checked
            // here.
            if handle.isForExecution, submounts.forbids(.noexec, on: handle.node.key.mount) {
                throw .noAccess
            }
            let route = try begin(handle, isPresented: isPresented, for: reply)
            handle.node.noteOpened()
            if !handle.mayWrite { noteReadInHistory(handle) }
            passage?.end()
            answer(handle, by: route, reply: reply)
        } catch {
            endUnopened(handle)
            if handle.isRetry {
                reply.fail(error)
            } else {
                coordinator.failWithRetry(reply, error)
            }
        }
    }

    /// Notes an open for reading in the history, if the file is presented, or if a rule asks for it.
    @inline(__always)
    private func noteReadInHistory(_ handle: Handle) {
        guard engine.hasAwareClients || context.policies.hasReadRules, context.history.isRecording,
            isReadLogged(handle)
        else { return }
        context.history.note(
            .read, handle.node, by: context.processes.author(ofThread: handle.thread), user: handle.user)
    }

    private func isReadLogged(_ handle: Handle) -> Bool {
        if engine.hasAwareClients, engine.isPresented(handle.item) { return true }
        guard context.policies.hasReadRules else { return false }
        return context.policy(of: .log, forFileAt: handle.node.path, usedBy: handle.thread) == .reads
    }

    /// Connects a handle with the file's data, and adds the handle to the table. Truncates the file if the open asks
    /// for that.
    ///
    /// - Parameters:
    ///   - handle: The handle that is about to be opened.
    ///   - newFile: The file, if the same request has just made it. A new file is not truncated.
    ///   - isPresented: Whether a presenter is told of the handle's writes.
    ///   - reply: The reply to the request.
    /// - Returns: How the kernel transfers the file's data.
    /// - Throws: The error of a system call on the file in the source. The file is unchanged then.
    @inline(__always)
    func begin(
        _ handle: Handle, _ newFile: NewFile? = nil, isPresented: Bool, for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        let node = handle.node
        let descriptor = try pin(handle, isNew: newFile != nil)
        let route: DataRoute
        do throws(Errno) {
            route = try data.beginData(
                of: handle, through: descriptor, created: newFile?.takeFile(), looking: newFile?.status,
                for: reply)
        } catch {
            node.unpin()
            throw error
        }
        do throws(Errno) {
            // The truncation is the last step, because an open that fails must not change the file.
            if newFile == nil, handle.truncates {
                try data.truncate(handle, through: descriptor, for: reply.caller)
            }
        } catch {
            handle.closeFile()
            data.leaveRoute(handle)
            node.unpin()
            throw error
        }
        identity.insert(handle)
        if isPresented { events.watch(handle) } else { events.watchIfHeard(handle) }
        return route
    }

    /// Pins the node of a handle, and notes the open for ``Sightings``. An open to write is noted before that, by
    /// ``OpenPreservation``; a new file is noted here.
    @inline(__always)
    private func pin(_ handle: Handle, isNew: Bool) throws(Errno) -> SharedDescriptor {
        guard handle.isClaimed, handle.process > 0, isNew || !handle.mayWrite && !handle.truncates else {
            return try handle.node.pin()
        }
        // The table cannot have a file that was just made.
        let (descriptor, outcome) = try handle.node.pin(
            noting: handle.process, at: NodeSightings.moment(of: handle.opened),
            isNew ? handle.sightingUse : .reads, isTableEmpty: isNew || sightings.isEmpty)
        if outcome != .alone { sightings.noteOpen(handle, outcome) }
        return descriptor
    }

    @inline(__always)
    private func answer(_ handle: Handle, by route: DataRoute, reply: consuming Reply) {
        let isFlushing = closePreserver.needsFlush(handle)
        let isOpen: Bool
        switch route {
        case .backing(let backing): isOpen = reply.opened(handle.id, backing: backing, flushing: isFlushing)
        case .daemon:
            let keeps = data.mayReusePageCache(for: handle)
            if !keeps { data.invalidateSizeIfChanged(for: handle) }
            isOpen = reply.opened(
                handle.id, backing: nil, isMappable: !handle.isAppendOnly, keepingContents: keeps,
                flushing: isFlushing)
        }
        if !isOpen {
            // The open was not completed, so the kernel still has the cached pages that it should have dropped.
            data.pageCachePolicy.invalidate(handle.node)
            closer.close(handle)
        } else if handle.isClaimed, handle.isForExecution {
            // While a program is executed, the kernel refuses writers of its file with ETXTBSY. So this open needs no
            // claim. If the claim stayed, writers might wait for hours.
            engine.end(handle.claim)
        }
    }

    /// Ends a handle after a failed open: removes the handle from the writers of the store's hard links, and ends its
    /// claim.
    func endUnopened(_ handle: Handle) {
        handle.closeFile(forGood: true)
        unseenOverwrites.abandonOpen(of: handle)
        guard !handle.linkedVersions.isEmpty else { return endClaim(of: handle) }
        context.work(on: handle.node, for: .preserving) { [self] in
            preserver.releaseFiles(ofUnopened: handle)
            endClaim(of: handle)
        }
    }

    private func endClaim(of handle: Handle) { if handle.isClaimed { engine.end(handle.claim) } }

    /// Whether the last step of an open may block. In this case, a thread that answers requests must not do that step.
    func mayBlock(_ handle: Handle) -> Bool { handle.truncates || !data.isPassthrough(handle.node) }
}
