// SPDX-License-Identifier: Apache-2.0

/// The layers of FilesystemServer, called floors, the lowest first. A service calls only services of its own floor or of a
/// lower floor.
///
/// The compiler also enforces this rule, because each service is made after the services that it refers to. This check fails
/// before a build does, and reports the floor that is too high.
enum FloorLaws {
    struct Floor: Sendable {
        /// The files and folders of the floor, relative to ``root``.
        let paths: [String]
        /// The types that only files of this floor and of higher floors may use.
        let types: Set<String>
    }

    static let root = "Sources/FilesystemServer"

    static let floors: [Floor] = [
        Floor(
            paths: [
                "MountContext.swift", "WorkerPools.swift", "AccessTable.swift", "Descriptors", "FileTree",
                "Handles", "History", "Processes", "SaveDetection", "Sightings",
            ],
            types: ["MountContext", "FileTree", "NodeTable", "HandleTable", "PlaceRegistry", "Sightings"]),
        Floor(paths: ["SourceWatch"], types: ["SourceWatch", "SourceWatcher", "OwnChanges"]),
        Floor(
            paths: ["Data"],
            types: ["DataPlane", "ShownAttributes", "PageCachePolicy", "AdvisoryLocks", "LingeringHandles"]),
        Floor(
            paths: ["Preservation"],
            types: [
                "ContentPreserver", "CleanWriters", "ClosePreserver", "ConflictCopies", "SaveMerger",
                "UnseenOverwrites", "WriteHistory",
            ]),
        Floor(
            paths: ["Documents"],
            types: [
                "DocumentEvents", "DocumentIdentity", "DocumentFinder", "DocumentTable", "SaveLifecycle",
                "SaveTracker", "OpenWriterMonitor", "DeferredDeletions",
            ]),
        Floor(
            paths: ["Retries"],
            types: [
                "RetryCoordinator", "RetryTable", "ParkedRequests", "ExpectedRetries", "PendingOpen",
                "ClaimedRequest",
            ]),
        Floor(paths: ["OutOfBand"], types: ["OutOfBandMonitor", "RightsWatcher", "SourceWatchThread"]),
        Floor(
            paths: ["Operations"],
            types: [
                "AttributeReplies", "UnsavedStats", "StatLedger", "HandleCloser", "LockPoller", "Open",
                "OpenArrivals", "OpenClaims", "OpenPreservation", "HandleOpener", "OpenQueue",
                "DirectoryService", "ListingTable", "PendingListing", "Lookup", "NameRequests",
                "Create", "MakeNode", "Remove", "Rename", "RenameFacts", "RenameClaims", "RenameEffects",
                "DocumentRename", "SetAttributes",
                "ExtendedAttributes", "ReadWrite",
            ]),
        Floor(
            paths: ["CoordinatedFilesystem.swift", "DetachedMountMonitor.swift", "Mount.swift"],
            types: ["CoordinatedFilesystem", "Mount"]),
    ]

    static func findings(in file: TextFile) -> [Finding] {
        guard file.isBelow(root) else { return [] }
        let place = String(file.path.dropFirst(root.count + 1))
        guard let number = floors.firstIndex(where: { $0.holds(place) }) else {
            return [Finding(path: file.path, line: 1, what: "the file is on no floor")]
        }
        let higher = floors[(number + 1)...].reduce(into: Set<String>()) { $0.formUnion($1.types) }
        // A name after a dot is a member, such as `.mount` and `Outcome.Open`, and names no service.
        let word = /(?<member>\.)?(?<name>\b[A-Z]\w*\b)/.wordBoundaryKind(.simple)
        return zip(1..., file.codeLines).flatMap { line, code in
            code.matches(of: word).compactMap { match in
                let name = String(match.output.name)
                guard match.output.member == nil, higher.contains(name) else { return nil }
                return Finding(path: file.path, line: line, what: "\(name) is on a higher floor")
            }
        }
    }
}

extension FloorLaws.Floor {
    func holds(_ place: String) -> Bool { paths.contains { place == $0 || place.hasPrefix($0 + "/") } }
}
