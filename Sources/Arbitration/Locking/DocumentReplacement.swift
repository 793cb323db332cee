// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How claims stay with a document when a save gives its name to another file.
extension Arbiter {
    /// R1: The claims that handles hold on a document become claims on the orphan, which is the file that the handles
    /// have open.
    mutating func vacate(_ document: ItemID, _ orphan: ItemID) {
        moveHandles(from: document, to: orphan)
    }

    /// R2: Called when a save gives the name of a document to another file, the incoming file. Claims on the incoming
    /// file become claims on the document. Claims that handles hold on the replaced file become claims on the orphan.
    mutating func replace(_ document: ItemID, _ incoming: ItemID, _ orphan: ItemID?) {
        guard document != incoming else { return }
        if let orphan { moveHandles(from: document, to: orphan) }
        let place = place(of: document)
        for id in allClaims(on: incoming) {
            move(id, from: incoming, to: document) { place ?? $0 }
        }
        // P11: The presenters of the incoming file, which gets the document's name, become presenters of the document.
        for presenter in registry.presented[incoming] ?? [] {
            registry.leave(presenter)
            registry.enter(presenter, at: document)
        }
    }

    /// R2: The place of an item, from the oldest claim that states a directory for the item.
    private func place(of item: ItemID) -> Place? {
        for id in allClaims(on: item) {
            let place = claims[id]?.firstOfParts {
                $0.item == item && $0.place.directory != nil ? $0.place : nil
            }
            if let place { return place }
        }
        return nil
    }

    private mutating func moveHandles(from document: ItemID, to orphan: ItemID) {
        guard let held = locks[.item(document)]?.held, document != orphan else { return }
        for id in Array(held.readers) + Array(held.writers) where claims[id]?.nature == .handle {
            // The orphan has no name any more, so it is in no directory.
            move(id, from: document, to: orphan) { _ in Place() }
        }
    }

    private mutating func move(
        _ id: ClaimID, from item: ItemID, to other: ItemID, at place: (Place) -> Place
    ) {
        relocate(id) { part in
            guard part.item == item else { return part }
            return ClaimRequest.Part(other, part.access, at: place(part.place), via: part.via)
        }
    }

    /// All claims with a part on an item, or with a lock on the item, in the order of their numbers.
    func allClaims(on item: ItemID) -> [ClaimID] {
        let batches = claims.batches.filter {
            claims[$0]?.firstOfParts { $0.item == item ? true : nil } ?? false
        }
        return batches.isEmpty ? allClaims(at: .item(item)) : (allClaims(at: .item(item)) + batches).sorted()
    }

    /// All claims that require a resource, in the order of their numbers.
    func allClaims(at resource: Resource) -> [ClaimID] {
        guard let lockQueue = locks[resource] else { return [] }
        return [lockQueue.held, lockQueue.waiting].flatMap { Array($0.readers) + Array($0.writers) }.sorted()
    }

    /// R3: Reviews all claims on the resources in the agenda.
    mutating func reviewResources() {
        let resources = agenda.takeResources()
        // D2, Q3: Any claim may now wait for other claims than before.
        addAllDependencyTargets()
        for resource in resources { reviewResources(at: resource) }
        // Q3: If a claim waits for two resources, a change at the first resource can change which claims block at the
        // second. So all waiting claims are reviewed.
        if resources.contains(where: isWaitedForWithOthers) { agenda.addGrantCandidates(waits.ids) }
    }

    private mutating func reviewResources(at resource: Resource) {
        guard let lockQueue = locks[resource] else { return }
        for side in [lockQueue.waiting.readers, lockQueue.waiting.writers] {
            for id in side {
                agenda.addGrantCandidate(id)
                agenda.addCycleCandidate(id)
            }
        }
        addHoldersToReview(at: resource, lockQueue.held)
    }

    /// Whether a claim that waits for the resource also waits for another resource.
    private func isWaitedForWithOthers(_ resource: Resource) -> Bool {
        guard let waiting = locks[resource]?.waiting else { return false }
        return waiting.readers.contains(where: hasSeveralLocks)
            || waiting.writers.contains(where: hasSeveralLocks)
    }

    private func hasSeveralLocks(_ id: ClaimID) -> Bool { !(claims[id]?.isOnOneItem ?? true) }
}
