// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Glibc
import LinuxSystem

/// The generations of documents, for clients of the control socket (D251).
extension DocumentFinder {
    func generation(of document: any TrackedDocument) throws(LookupFailure) -> DocumentGeneration? {
        guard let node = (document as? TrackedFile)?.node, node.kind == S_IFREG else { return nil }
        do throws(Errno) {
            return try description(of: sightings.generationToCompare(of: node), node)
        } catch {
            throw .system(error.rawValue)
        }
    }

    func compare(
        _ document: any TrackedDocument, with expected: String
    ) throws(LookupFailure) -> GenerationComparison {
        guard let node = (document as? TrackedFile)?.node, node.kind == S_IFREG else { return .missing }
        do throws(Errno) {
            let now = try sightings.generation(of: node)
            guard let generation = Generation(expected) else {
                return .unknown(try description(of: now, node))
            }
            if try sightings.has(node, generation) { return .same }
            let shown = try description(of: now, node)
            guard sightings.knowsEpoch(of: generation) else { return .unknown(shown) }
            if case (.numbered, .token) = (generation, now) { return .forgotten(shown) }
            return .changed(shown)
        } catch {
            throw .system(error.rawValue)
        }
    }

    private func description(of generation: Generation, _ node: Node) throws(Errno) -> DocumentGeneration {
        let modified = try node.descriptor().descriptor.status().modified
        return DocumentGeneration(
            "\(generation)", author: sightings.author(of: node),
            time: modified.seconds &* 1_000_000_000 &+ Int64(modified.nanoseconds))
    }
}
