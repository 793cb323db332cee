// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine

/// What the intents of a client come to: documents that are followed, and each item once.
struct AccessPlan: Sendable {
    /// One for each intent, in their order.
    private(set) var documents: [PlannedDocument] = []
    /// Symbolic links that led to some of them.
    private var links: [any TrackedDocument] = []
    private(set) var parts: [Coordination.Request.Part] = []
    /// One for each part.
    private(set) var claimed: [PlannedDocument] = []
    /// The user may only read something that is read, and so keeps nobody out for long.
    private(set) var isGuestReading = false
    private var looks = ProtocolLimits.linkLooks

    /// Everything may block.
    init(_ intents: [IntentForm], for guest: Guest?, in service: Service) throws(Failure) {
        do throws(Failure) {
            for intent in intents { try add(intent, for: guest, in: service) }
            // What is written must not be passed by others because of what is read.
            guard !isGuestReading || !parts.contains(where: \.access.isWrite) else {
                throw .denied("what you may not write, read in an access without writes")
            }
        } catch {
            release()
            throw error
        }
    }

    /// The document that is written, by what it is called now.
    func written(at path: [UInt8]) -> (any TrackedDocument)? {
        zip(parts, claimed).first { $0.access.isWrite && $1.path == path }?.1.document
    }

    func release() {
        for document in documents { document.release() }
        for link in links { link.release() }
    }

    private mutating func add(
        _ intent: IntentForm, for guest: Guest?, in service: Service
    ) throws(Failure) {
        var path = intent.path
        var link: ItemID?
        if case .read(let options) = intent.access, options.contains(.resolvesSymbolicLink),
            let target = try service.target(of: path, for: guest, within: &looks)
        {
            let followed = try service.documents.find(path)
            links.append(followed)
            (path, link) = (target, followed.item)
        }
        if let guest {
            let rights = try guest.checked(intent.access, at: path)
            if !intent.access.isWrite, !rights.contains(.write) { isGuestReading = true }
        }
        let document = PlannedDocument(try service.documents.find(path), in: service.documents)
        documents.append(document)
        try add(
            Coordination.Request.Part(document.item, intent.access, at: document.place, via: link),
            of: document,
            at: path)
    }

    /// An access has each item once, with all that is to be done with it.
    private mutating func add(
        _ part: Coordination.Request.Part, of document: PlannedDocument, at path: PathForm
    ) throws(Failure) {
        guard let index = parts.firstIndex(where: { $0.item == part.item }) else {
            parts.append(part)
            claimed.append(document)
            return
        }
        let known = parts[index]
        guard let access = known.access.together(with: part.access) else {
            throw .invalidParameters(
                "'\(path.path.excerpt)' cannot be accessed \(known.access.name) and \(part.access.name) at once; "
                    + "begin one access 'within' the other")
        }
        parts[index] = Coordination.Request.Part(
            known.item, access, at: known.place, via: known.via ?? part.via)
    }
}

extension Access {
    /// The one access that does what two do; nil if there is none.
    ///
    /// Whoever reads and writes has presenters save first, which `forMerging` does.
    func together(with other: Access) -> Access? {
        switch (self, other) {
        case (.read(let options), .read(let others)): .read(options.intersection(others))
        case (.write, .read): other.together(with: self)
        case (.read(let options), .write(let write)):
            switch write {
            case _ where options.contains(.withoutChanges): other
            case .updating, .contentIndependentMetadataOnly, .forMerging: .write(.forMerging)
            case .forDeleting, .forMoving, .forReplacing: nil
            }
        case (.write(let write), .write(let another)): write.together(with: another).map { .write($0) }
        }
    }
}

extension WritingOption {
    fileprivate func together(with other: WritingOption) -> WritingOption? {
        if self == other || other == .contentIndependentMetadataOnly { return self }
        return switch (self, other) {
        case (.contentIndependentMetadataOnly, _): other
        case (.updating, _): other
        case (_, .updating): self
        default: nil
        }
    }
}
