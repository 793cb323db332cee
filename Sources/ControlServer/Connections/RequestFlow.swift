// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// The requests of one connection that wait, and the number of requests that are being served.
struct RequestFlow {
    private var waiting: CircularBuffer<(id: MessageID, request: Result<ClientRequest, ProtocolFailure>)> = []
    private var served = 0

    /// Whether the daemon may read the next message: if that message is a request, the queue still has room for it.
    var hasRoom: Bool { waiting.count < ProtocolLimits.outstandingRequests }
    var mayStart: Bool { served < ProtocolLimits.outstandingRequests }
    var isIdle: Bool { waiting.isEmpty && served == 0 }

    mutating func queue(_ id: MessageID, _ request: Result<ClientRequest, ProtocolFailure>) {
        waiting.append((id, request))
    }

    mutating func next() -> (MessageID, Result<ClientRequest, ProtocolFailure>)? { waiting.popFirst() }

    /// Removes a request that waits and is not served yet. Returns whether there was a request with this id.
    mutating func drop(_ id: MessageID) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return false }
        waiting.remove(at: index)
        return true
    }

    mutating func begin() { served += 1 }
    mutating func finish() { served -= 1 }
}
