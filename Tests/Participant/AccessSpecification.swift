// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The items and options of an access, parsed from words such as `read a write b,forMoving`.
struct AccessSpecification: Sendable {
    struct Item: Sendable {
        var url: URL
        var isRead: Bool
        var reading: FileCoordinator.ReadingOptions = []
        var writing: FileCoordinator.WritingOptions = []

        var intent: FileAccessIntent {
            isRead
                ? .readingIntent(with: url, options: reading) : .writingIntent(with: url, options: writing)
        }
    }

    var items: [Item] = []
    var reads: [Item] { items.filter(\.isRead) }
    var writes: [Item] { items.filter { !$0.isRead } }

    init(_ words: ArraySlice<String>, in place: ParticipantDirectory) {
        var rest = words
        while let kind = rest.popFirst(), let name = rest.popFirst() {
            let parts = name.split(separator: ",").map(String.init)
            var item = Item(url: place.url(parts[0]), isRead: kind == "read")
            for option in parts.dropFirst() {
                if item.isRead {
                    item.reading.insert(Self.reading(option))
                } else {
                    item.writing.insert(Self.writing(option))
                }
            }
            items.append(item)
        }
    }

    private static func reading(_ name: String) -> FileCoordinator.ReadingOptions {
        switch name {
        case "withoutChanges": .withoutChanges
        case "resolvesSymbolicLink": .resolvesSymbolicLink
        case "immediatelyAvailableMetadataOnly": .immediatelyAvailableMetadataOnly
        case "forUploading": .forUploading
        default: preconditionFailure("no reading option is called '\(name)'")
        }
    }

    private static func writing(_ name: String) -> FileCoordinator.WritingOptions {
        switch name {
        case "forDeleting": .forDeleting
        case "forMoving": .forMoving
        case "forMerging": .forMerging
        case "forReplacing": .forReplacing
        case "contentIndependentMetadataOnly": .contentIndependentMetadataOnly
        default: preconditionFailure("no writing option is called '\(name)'")
        }
    }

    /// Coordinates the access with the method of Apple's API that has these parameters, on the calling thread.
    func coordinate(by coordinator: FileCoordinator, _ accessor: ([URL]) -> Void) -> NSError? {
        var error: NSError?
        let (reads, writes) = (reads, writes)
        switch (reads.count, writes.count) {
        case (1, 0):
            coordinator.coordinate(
                readingItemAt: reads[0].url, options: reads[0].reading, error: &error
            ) { accessor([$0]) }
        case (0, 1):
            coordinator.coordinate(
                writingItemAt: writes[0].url, options: writes[0].writing, error: &error
            ) { accessor([$0]) }
        case (1, 1):
            coordinator.coordinate(
                readingItemAt: reads[0].url, options: reads[0].reading, writingItemAt: writes[0].url,
                options: writes[0].writing, error: &error
            ) { accessor([$0, $1]) }
        case (0, 2):
            coordinator.coordinate(
                writingItemAt: writes[0].url, options: writes[0].writing, writingItemAt: writes[1].url,
                options: writes[1].writing, error: &error
            ) { accessor([$0, $1]) }
        default:
            preconditionFailure("Apple has no method for \(reads.count) reads and \(writes.count) writes")
        }
        return error
    }
}
