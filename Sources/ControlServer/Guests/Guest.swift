// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// A client that is neither root nor the owner of the mount; the kernel is asked for its rights each time.
struct Guest: Sendable {
    let user: FileUser
    var source: any SourceInspector

    /// Returns the user's rights, if they suffice for an access. May block.
    func checked(_ access: Access, at path: PathForm) throws(ProtocolFailure) -> Rights {
        let rights = try rights(at: path)
        let (needed, what): (Rights, String) =
            switch access {
            case .read: (.read, "read")
            case .write(.updating), .write(.forMerging), .write(.contentIndependentMetadataOnly):
                (.write, "write")
            case .write(.forDeleting): (.rename, "delete")
            case .write(.forMoving): (.rename, "move")
            case .write(.forReplacing): (.rename, "replace")
            }
        guard rights.isSuperset(of: needed) else {
            throw .denied("you may not \(what) '\(path.path.excerpt)'")
        }
        return rights
    }

    /// Returns the user's rights, if it may read the path. May block.
    func checkedToLook(at path: PathForm) throws(ProtocolFailure) -> Rights {
        let rights = try rights(at: path)
        guard rights.contains(.read) else { throw .denied("you may not read '\(path.path.excerpt)'") }
        return rights
    }

    /// The document's current path if the user may read it, or else the path that the user named. May block.
    func name(of document: any TrackedDocument, lookedFor path: PathForm) -> [UInt8] {
        let name = document.path
        return present(at: name).contains(.read) ? name : path.bytes ?? []
    }

    private func rights(at path: PathForm) throws(ProtocolFailure) -> Rights {
        do throws(LookupFailure) {
            return try source.rights(of: user, at: path.bytes ?? [])
        } catch {
            throw ProtocolFailure(error, path)
        }
    }

    /// The implemented messages that a presenter is sent.
    ///
    /// A question delays other programs, so it requires the right to write, or the right to delete for questions about
    /// deletion.
    func permitted(_ messages: PresenterMessages, with rights: Rights) -> PresenterMessages {
        var permitted = messages
        if !rights.contains(.write) {
            permitted.subtract([.relinquishToReader, .relinquishToWriter, .save, .accommodateSubitemDeletion])
        }
        if !rights.contains(.rename) { permitted.remove(.accommodateDeletion) }
        return permitted
    }
}

// The messages that presenters of guests are sent.
extension Guest {
    enum MessageVerdict: Sendable {
        /// Sends the message with the paths that were checked.
        case deliver(at: [UInt8], MessagePaths)
        /// Sends a gap, because it is no longer known whether the user could have seen the change.
        case deliverGap(at: [UInt8])
        /// The question is not sent and blocks no claim.
        case consent(QuestionID)
        case drop
    }

    /// Decides whether the user may still be sent a message. May block.
    func verdict(
        on message: PresenterMessage, about document: any TrackedDocument, in services: SharedServices
    ) -> MessageVerdict {
        // All notices of an event share an answer of the kernel. A question delays other programs, so its rights are checked
        // each time.
        if case .notice = message.content {
            return recent(since: message.moment, in: services).assess(
                at: message, about: document, in: services)
        }
        return assess(at: message, about: document, in: services)
    }

    /// The same guest, with the kernel's answers since a moment from the cache.
    func recent(since moment: Instant, in services: SharedServices) -> Guest {
        Guest(user: user, source: services.rightsCache.since(moment))
    }

    private func assess(
        at message: PresenterMessage, about document: any TrackedDocument, in services: SharedServices
    ) -> MessageVerdict {
        let (path, names) = (document.path, MessagePaths(of: message, services.documents))
        switch message.content {
        case .request(let question, let request, _, let deadline):
            let mayBeAsked = mayBeAsked(request, at: path, names.now, in: services)
            // This is not a consent: no claim waits any longer.
            guard Engine.now < deadline else { return .drop }
            guard mayBeAsked else { return .consent(question) }
            return .deliver(at: path, names)
        case .notice(.reacquire, _):
            // The notice ends a question and says nothing else.
            return .deliver(at: path, names)
        case .notice(_, nil): return present(at: path).contains(.read) ? .deliver(at: path, names) : .drop
        case .notice(_, let subitem?):
            guard present(at: path).contains(.read) else { return .drop }
            // The notice of a move also has the former name.
            var visibilities = [
                visibility(of: names.now, in: subitem.place.directory, by: services.documents)
            ]
            if let former = subitem.former {
                visibilities.append(
                    visibility(of: names.before, in: former.directory, by: services.documents))
            }
            if visibilities.contains(.denied) { return .drop }
            return visibilities.contains(.unknown) ? .deliverGap(at: path) : .deliver(at: path, names)
        }
    }

    /// Whether the user may know of a change.
    enum Visibility: Sendable {
        case allowed
        case denied
        /// The directory of the change no longer exists, or another directory has its path.
        case unknown
    }

    /// Whether a name is in a directory that the user may list. May block.
    ///
    /// The path may be outdated, and a user could put a directory of its own there. So the directory must be the same as that
    /// of the change.
    func visibility(of path: [UInt8]?, in directory: ItemID?, by documents: any DocumentSource) -> Visibility
    {
        guard let path else { return .unknown }
        let above = Array(path[..<(path.lastIndex(of: UInt8(ascii: "/")) ?? 0)])
        do throws(LookupFailure) {
            guard let status = try source.listableDirectory(above, by: user) else { return .denied }
            guard let directory else { return .allowed }
            return documents.isFile(directory, status) ? .allowed : .unknown
        } catch {
            return .unknown
        }
    }

    private func mayBeAsked(
        _ request: PresenterRequest, at path: [UInt8], _ name: [UInt8]?, in services: SharedServices
    ) -> Bool {
        guard request == .accommodateSubitemDeletion else {
            return present(at: path).contains(request == .accommodateDeletion ? .rename : .write)
        }
        guard let name else { return false }
        return visibility(of: name, in: nil, by: services.documents) == .allowed
            && present(at: name).contains(.rename)
    }

    private func present(at path: [UInt8]) -> Rights {
        do throws(LookupFailure) { return try source.rights(of: user, at: path) } catch { return [] }
    }
}

extension SharedServices {
    /// The guest of a connection; nil for root and for the owner of the mount.
    func guest(_ peer: Peer) -> Guest? {
        guard peer.user != 0, peer.user != mount.user else { return nil }
        return Guest(
            user: FileUser(
                user: peer.user, group: peer.credentials.group, supplementaryGroups: peer.supplementaryGroups),
            source: source)
    }

    /// The path that a symbolic link leads to; nil if the path is not a link. May block.
    func target(
        of path: PathForm, for guest: Guest?, within lookups: inout Int
    ) throws(ProtocolFailure) -> PathForm? {
        do throws(LookupFailure) {
            return try source.target(of: path.bytes ?? [], as: guest?.user, within: &lookups).map {
                PathForm($0)
            }
        } catch .denied {
            throw .denied("'\(path.path.excerpt)' leads out of the mount")
        } catch {
            throw ProtocolFailure(error, path)
        }
    }
}
