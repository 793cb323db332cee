// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// A client that is neither root nor the owner of the mount. Before each step for the guest, the kernel is asked which rights
/// the guest's user has to the file.
struct Guest: Sendable {
    let user: FileUser
    var source: any SourceInspector

    /// Returns the user's rights to the item at a path. Throws if they do not allow the access. This can block.
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

    /// Returns the user's rights to the item at a path. Throws if the user may not read the item. This can block.
    func checkedToLook(at path: PathForm) throws(ProtocolFailure) -> Rights {
        let rights = try rights(at: path)
        guard rights.contains(.read) else { throw .denied("you may not read '\(path.path.excerpt)'") }
        return rights
    }

    /// Returns the path of the document now, if the user may read the document at that path. Otherwise returns the path that
    /// the client sent. This can block.
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

    /// Returns those of the given messages that a presenter of the user is sent.
    ///
    /// A question delays other programs. Questions are therefore sent only to a user with the right to write the item.
    /// Questions about a deletion need the right to delete it.
    func permitted(_ messages: PresenterMessages, with rights: Rights) -> PresenterMessages {
        var permitted = messages
        if !rights.contains(.write) {
            permitted.subtract([.relinquishToReader, .relinquishToWriter, .save, .accommodateSubitemDeletion])
        }
        if !rights.contains(.rename) { permitted.remove(.accommodateDeletion) }
        return permitted
    }
}

// Decides which messages the presenters of guests are sent.
extension Guest {
    enum MessageVerdict: Sendable {
        /// The message is sent, with the paths that the user may see.
        case deliver(at: [UInt8], MessagePaths)
        /// The client is told that something has changed, but not the name: whether the user had the right to see the change is
        /// not known any more.
        case deliverGap(at: [UInt8])
        /// The question is not sent, and counts as answered with consent, so that no claim waits for an answer.
        case consent(QuestionID)
        case drop
    }

    /// Decides whether a message may be sent to the user now. This can block.
    func verdict(
        on message: PresenterMessage, about document: any TrackedDocument, in services: SharedServices
    ) -> MessageVerdict {
        // For a notice, the kernel's recent answers about rights are used. For a question the kernel is asked anew, because a
        // question delays other programs.
        if case .notice = message.content {
            return recent(since: message.moment, in: services).assess(
                at: message, about: document, in: services)
        }
        return assess(at: message, about: document, in: services)
    }

    /// Returns a copy of this guest that uses the cached answers about rights, if they are newer than `moment`.
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
            // The deadline of the question has passed, so no claim waits for its answer any more. The question is neither sent
            // nor answered with consent.
            guard Engine.now < deadline else { return .drop }
            guard mayBeAsked else { return .consent(question) }
            return .deliver(at: path, names)
        case .notice(.reacquire, _):
            // This notice only says that an access has ended. It contains nothing that the user may not see.
            return .deliver(at: path, names)
        case .notice(_, nil): return present(at: path).contains(.read) ? .deliver(at: path, names) : .drop
        case .notice(_, let subitem?):
            guard present(at: path).contains(.read) else { return .drop }
            // A notice about a move contains the former and the new name. The user must have the right to see each of them.
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

    /// Whether the user may be told of a change in a directory.
    enum Visibility: Sendable {
        case allowed
        case denied
        /// The directory of the change does not exist any more, or another directory has its path now.
        case unknown
    }

    /// Returns whether the name at a path is in a directory that the user may list. This can block.
    ///
    /// The path can be outdated, and a user could have put another directory there. So the directory at the path must be
    /// `directory`, in which the change happened.
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
    /// The client of a connection as a guest; nil if the client is root or the owner of the mount.
    func guest(_ peer: Peer) -> Guest? {
        guard peer.user != 0, peer.user != mount.user else { return nil }
        return Guest(
            user: FileUser(
                user: peer.user, group: peer.credentials.group, supplementaryGroups: peer.supplementaryGroups),
            source: source)
    }

    /// Returns the path that a symbolic link leads to; nil if the item at the path is not a link. This can block.
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
