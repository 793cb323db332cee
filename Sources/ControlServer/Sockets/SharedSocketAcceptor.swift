// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Accepts the connections of all users, on a thread of its own.
///
/// The thread refuses guests that connect too often, so that the kernel's queue of new connections stays short. A refusal takes
/// only microseconds, and takes no time of the event loop, which serves all clients.
final class SharedSocketAcceptor: Sendable {
    private let listener: OwnedDescriptor
    private let isClosed = Atomic<Bool>(false)
    /// A lock that the thread holds while it runs. By this lock `close()` waits until the thread admits no more connections.
    private let running = Mutex<Void>(())
    private let isGuest: @Sendable (UInt32) -> Bool
    private let admit: @Sendable (CInt) -> Void
    private let log: @Sendable (String) -> Void
    /// How long the thread pauses after an error, for example when the process has no free descriptors.
    private static let pause = TimeSpan.milliseconds(200)

    /// Calls `admit` with the descriptor of each admitted connection, on the thread of this object. `admit` then owns the
    /// descriptor.
    init(
        _ listener: consuming OwnedDescriptor, isGuest: @escaping @Sendable (UInt32) -> Bool,
        log: @escaping @Sendable (String) -> Void, admit: @escaping @Sendable (CInt) -> Void
    ) {
        self.listener = listener
        self.isGuest = isGuest
        self.admit = admit
        self.log = log
    }

    func open(at rate: ConnectionRate) throws(Errno) {
        try JoinableThread { [self] in running.withLock { _ in run(AcceptState(rate)) } }.detach()
    }

    /// Refuses further connections.
    ///
    /// When this returns, each connection that came earlier is either admitted or refused.
    func close() {
        isClosed.store(true, ordering: .sequentiallyConsistent)
        UnixSocket.refuseAll(on: listener)
        running.withLock { _ in }
    }

    /// The values that only the accepting thread uses: how many connections came lately, and how many lines it may still log.
    private struct AcceptState {
        var rate: ConnectionRate
        var refusals = LogRateLimiter(lines: 1)
        var faults = LogRateLimiter(lines: 1)

        init(_ rate: ConnectionRate) { self.rate = rate }
    }

    private func run(_ acceptState: consuming AcceptState) {
        var acceptState = acceptState
        while !isClosed.load(ordering: .sequentiallyConsistent) {
            do throws(Errno) {
                let socket = try UnixSocket.accept(on: listener)
                try screen(at: socket, &acceptState)
            } catch {
                if !isClosed.load(ordering: .sequentiallyConsistent) { wait(after: error, &acceptState) }
            }
        }
    }

    private func screen(at socket: consuming OwnedDescriptor, _ acceptState: inout AcceptState) throws(Errno)
    {
        let peer = try PeerCredentials(of: socket.rawValue)
        guard isGuest(peer.user) else { return admit(socket.release()) }
        let now = Engine.now
        let verdict = acceptState.rate.admit(peer.user, at: now)
        guard let refusal = acceptState.rate.refusal(verdict) else { return admit(socket.release()) }
        if let more = acceptState.refusals.note(peer.user, at: now) {
            log(
                "control connection of pid \(peer.pid), user \(peer.user): refused: \(refusal.message)\(more)"
            )
        }
        tell(refusal, socket)
    }

    private func tell(_ refusal: ProtocolFailure, _ socket: borrowing OwnedDescriptor) {
        do {
            try socket.sendNow(Framing.lines.frame(ReplyMessage(to: nil, .failure(refusal)).encoded()))
        } catch {
            // The client has already closed the connection, so it needs no message.
            return
        }
    }

    private func wait(after error: Errno, _ acceptState: inout AcceptState) {
        if let more = acceptState.faults.note(0, at: Engine.now) {
            log("the control socket cannot accept connections: \(error)\(more)")
        }
        UnixSocket.pause(milliseconds: Int32(Self.pause.milliseconds))
    }
}
