// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation
import Synchronization

/// One item of an access to several items, and how the program will read or write that item.
///
/// It corresponds to Apple's `NSFileAccessIntent`, and has that name as an alias.
public final class FileAccessIntent: NSObject, Sendable {
    let access: Access
    let ifGeneration: String?
    private let location: Mutex<URL>

    private init(_ url: URL, _ access: Access, ifGeneration: String? = nil) {
        self.access = access
        self.ifGeneration = ifGeneration
        location = Mutex(url)
    }

    public static func readingIntent(
        with url: URL, options: FileCoordinator.ReadingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .read(options.coordinationOptions))
    }

    /// - Precondition: `options` contains at most one option.
    public static func writingIntent(
        with url: URL, options: FileCoordinator.WritingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .write(options.coordinationOption))
    }

    /// Makes an intent to write an item that still has a generation, as from ``FileCoordinator/generation(ofItemAt:)``. If the
    /// item has changed since, the access fails with the code ``FileCoordinationError/Code/changed``.
    ///
    /// - Precondition: `options` contains at most one option.
    public static func writingIntent(
        with url: URL, options: FileCoordinator.WritingOptions = [], ifGeneration generation: String
    ) -> FileAccessIntent {
        FileAccessIntent(url, .write(options.coordinationOption), ifGeneration: generation)
    }

    /// The URL that the item has now. Use it inside the accessor, because the item can have been moved while the access waited.
    public var url: URL { location.withLock { $0 } }

    func move(to url: URL) { location.withLock { $0 = url } }
}

/// An item of an access that a program asks for.
struct AccessItem: Sendable {
    let url: URL
    let access: Access
    /// The generation that the item must still have; nil for every generation.
    let ifGeneration: String?

    init(_ url: URL, _ access: Access, ifGeneration: String? = nil) {
        (self.url, self.access, self.ifGeneration) = (url, access, ifGeneration)
    }

    init(_ intent: FileAccessIntent) {
        self.init(intent.url, intent.access, ifGeneration: intent.ifGeneration)
    }
}

extension FileCoordinator {
    /// The options of a read. Their raw values are the same as Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The presenters of the item are not asked to save it before the read.
        public static let withoutChanges = Self(rawValue: 1)
        /// If the item is a symbolic link, the target of the link is read, and the accessor receives the target's URL.
        public static let resolvesSymbolicLink = Self(rawValue: 2)
        /// Nothing is downloaded for the read. On a local file system this option has no effect, because nothing needs to be
        /// downloaded.
        public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
        /// The accessor receives a copy of the item. The copy of a directory is a zip archive.
        ///
        /// Other programs wait only until the copy is made. The copy is removed when the accessor returns. If the copy is
        /// needed longer, the accessor must open or move it.
        public static let forUploading = Self(rawValue: 8)

        var coordinationOptions: Coordination.ReadingOptions {
            Coordination.ReadingOptions(rawValue: UInt8(truncatingIfNeeded: rawValue & 15))
        }
    }

    /// The options of a write. A write has at most one option. Their raw values are the same as Apple's.
    ///
    /// Without an option the item is updated. A save that replaces the file is an update, too.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The item will be deleted. Before the access is granted, its presenters are asked to accommodate the deletion.
        public static let forDeleting = Self(rawValue: 1)
        /// The item will be moved. If it is a directory, the write concerns all items in it.
        public static let forMoving = Self(rawValue: 2)
        /// The contents of the item will be merged with other contents. Before the access is granted, its presenters are asked
        /// to save.
        public static let forMerging = Self(rawValue: 4)
        /// The item at the URL will be replaced, if such an item exists. If the item is moved away while the access waits, the
        /// moved item is not replaced.
        public static let forReplacing = Self(rawValue: 8)
        /// Only attributes that do not depend on the contents will be written. Truce treats this like a write without options.
        public static let contentIndependentMetadataOnly = Self(rawValue: 16)

        var coordinationOption: WritingOption {
            switch self {
            case []: .updating
            case .forDeleting: .forDeleting
            case .forMoving: .forMoving
            case .forMerging: .forMerging
            case .forReplacing: .forReplacing
            case .contentIndependentMetadataOnly: .contentIndependentMetadataOnly
            default:
                preconditionFailure(
                    "a write has at most one option; for two options, nest an access in another access")
            }
        }
    }
}
