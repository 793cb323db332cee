// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine

/// The documents and the parts of the claim that the intents of an access need. Each item occurs in only one part.
struct AccessPlan: Sendable {
    /// The documents of the intents, in the order of the intents.
    private(set) var documents: [PlannedDocument] = []
    /// The symbolic links that were followed to find some of these documents.
    private var links: [any TrackedDocument] = []
    private(set) var parts: [Coordination.ClaimRequest.Part] = []
    /// The documents of the claim's parts, in the order of the parts.
    private(set) var claimedDocuments: [PlannedDocument] = []
    /// Whether the user is a guest that is allowed to read, but not to write, an item of the plan. Writers then wait only a
    /// short time for the guest's access.
    private(set) var isReadOnlyGuest = false
    private var lookups = ProtocolLimits.linkLookups

    /// Finds the documents of the intents. This can block.
    init(_ intents: [IntentForm], for guest: Guest?, in services: SharedServices) throws(ProtocolFailure) {
        do throws(ProtocolFailure) {
            for intent in intents { try add(intent, for: guest, in: services) }
            // The claim of a guest without the right to write can be suspended soon, and then all its parts are suspended. A
            // write would be suspended with them, so the claim must contain no write.
            guard !isReadOnlyGuest || !parts.contains(where: \.access.isWrite) else {
                throw .denied("what you may not write, read in an access without writes")
            }
        } catch {
            release()
            throw error
        }
    }

    /// The document that the access writes and that now has this path; nil if there is no such document.
    func writtenDocument(at path: [UInt8]) -> (any TrackedDocument)? {
        zip(parts, claimedDocuments).first { $0.access.isWrite && $1.path == path }?.1.document
    }

    func release() {
        for document in documents { document.release() }
        for link in links { link.release() }
    }

    private mutating func add(
        _ intent: IntentForm, for guest: Guest?, in services: SharedServices
    ) throws(ProtocolFailure) {
        var path = intent.path
        var link: ItemID?
        if case .read(let options) = intent.access, options.contains(.resolvesSymbolicLink),
            let target = try services.target(of: path, for: guest, within: &lookups)
        {
            let followed = try services.documents.find(path)
            links.append(followed)
            (path, link) = (target, followed.item)
        }
        if let guest {
            let rights = try guest.checked(intent.access, at: path)
            if !intent.access.isWrite, !rights.contains(.write) { isReadOnlyGuest = true }
        }
        let document = PlannedDocument(try services.documents.find(path), in: services.documents)
        documents.append(document)
        try add(
            Coordination.ClaimRequest.Part(document.item, intent.access, at: document.place, via: link),
            of: document,
            at: path)
    }

    /// Adds a part to the claim. If the claim already has a part with the same item, the two parts are merged.
    private mutating func add(
        _ part: Coordination.ClaimRequest.Part, of document: PlannedDocument, at path: PathForm
    ) throws(ProtocolFailure) {
        guard let index = parts.firstIndex(where: { $0.item == part.item }) else {
            parts.append(part)
            claimedDocuments.append(document)
            return
        }
        let known = parts[index]
        guard let access = known.access.merged(with: part.access) else {
            throw .invalidParameters(
                "'\(path.path.excerpt)' cannot be accessed \(known.access.name) and \(part.access.name) at once; "
                    + "begin one access 'within' the other")
        }
        parts[index] = Coordination.ClaimRequest.Part(
            known.item, access, at: known.place, via: known.via ?? part.via)
    }
}

extension Access {
    /// Returns an access that is at least as strong as `self` and as `other`; nil if no such access exists.
    ///
    /// A read merged with an update becomes `forMerging`: presenters are asked to save before the access begins.
    func merged(with other: Access) -> Access? {
        switch (self, other) {
        case (.read(let options), .read(let others)): .read(options.intersection(others))
        case (.write, .read): other.merged(with: self)
        case (.read(let options), .write(let write)):
            switch write {
            case _ where options.contains(.withoutChanges): other
            case .updating, .contentIndependentMetadataOnly, .forMerging: .write(.forMerging)
            case .forDeleting, .forMoving, .forReplacing: nil
            }
        case (.write(let write), .write(let another)): write.merged(with: another).map { .write($0) }
        }
    }
}

extension WritingOption {
    fileprivate func merged(with other: WritingOption) -> WritingOption? {
        if self == other || other == .contentIndependentMetadataOnly { return self }
        return switch (self, other) {
        case (.contentIndependentMetadataOnly, _): other
        case (.updating, _): other
        case (_, .updating): self
        default: nil
        }
    }
}
