// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem

/// A client who is neither root nor the user whose mount it is: the kernel is asked what it may do, each time.
struct Guest: Sendable {
    let user: FileUser
    var source: any SourceInspector

    /// What the user may do with what it wants to access.
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

    /// Refuses whoever may not even read it.
    func checkedToLook(at path: PathForm) throws(ProtocolFailure) -> Rights {
        let rights = try rights(at: path)
        guard rights.contains(.read) else { throw .denied("you may not read '\(path.path.excerpt)'") }
        return rights
    }

    /// What a document is called now, as far as the user may know: a file of several names was asked for by one of them; may
    /// block.
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

    /// Of what a presenter implements, what it is sent.
    ///
    /// Whoever is asked can delay others, so that takes the right to write; or to delete, for questions of that.
    func permitted(_ messages: PresenterMessages, with rights: Rights) -> PresenterMessages {
        var permitted = messages
        if !rights.contains(.write) {
            permitted.subtract([.relinquishToReader, .relinquishToWriter, .save, .accommodateSubitemDeletion])
        }
        if !rights.contains(.rename) { permitted.remove(.accommodateDeletion) }
        return permitted
    }
}

// What presenters of guests are sent.
extension Guest {
    enum MessageVerdict: Sendable {
        /// With the paths that were looked at.
        case deliver(at: [UInt8], MessagePaths)
        /// That something happened, and not what: nobody can say any more whether the user could have seen it.
        case deliverGap(at: [UInt8])
        /// It is not asked, and stands in nobody's way.
        case consent(QuestionID)
        case drop
    }

    /// Whether the user may still be sent a message; may block.
    func verdict(
        on message: PresenterMessage, about document: any TrackedDocument, in services: SharedServices
    ) -> MessageVerdict {
        // Of the same event the kernel is asked once. But whether others wait for the guest, it is asked each time.
        if case .notice = message.content {
            return recent(since: message.moment, in: services).assess(
                at: message, about: document, in: services)
        }
        return assess(at: message, about: document, in: services)
    }

    /// The same guest, of whom is known what the kernel has said since a moment.
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
            // That is no consent: nobody waits for one any more.
            guard Engine.now < deadline else { return .drop }
            guard mayBeAsked else { return .consent(question) }
            return .deliver(at: path, names)
        case .notice(.reacquire, _):
            // It ends what was asked, and says nothing else.
            return .deliver(at: path, names)
        case .notice(_, nil): return present(at: path).contains(.read) ? .deliver(at: path, names) : .drop
        case .notice(_, let subitem?):
            guard present(at: path).contains(.read) else { return .drop }
            // Where it was is told as well, if it was moved.
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

    /// Whether the user may hear of something.
    enum Visibility: Sendable {
        case allowed
        case denied
        /// The directory that it was in is not there any more, or another has its name.
        case unknown
    }

    /// Whether a name in a directory is one that the user could list; may block.
    ///
    /// The path is that of a moment ago, and whoever may not see one directory may make another in its place: so it has to be the
    /// directory that was looked at.
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
    /// Nil for root and for the user whose mount it is.
    func guest(_ peer: Peer) -> Guest? {
        guard peer.user != 0, peer.user != mount.user else { return nil }
        return Guest(
            user: FileUser(
                user: peer.user, group: peer.credentials.group, supplementaryGroups: peer.supplementaryGroups),
            source: source)
    }

    /// What a symbolic link leads to; nil for a path that leads to none.
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
