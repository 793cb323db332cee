// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation
import Synchronization

/// One item of an access to several items, with the kind of access.
///
/// It corresponds to Apple's `NSFileAccessIntent`, which is an alias here.
public final class FileAccessIntent: NSObject, Sendable {
    let access: Access
    private let location: Mutex<URL>

    private init(_ url: URL, _ access: Access) {
        self.access = access
        location = Mutex(url)
    }

    public static func readingIntent(
        with url: URL, options: FileCoordinator.ReadingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .read(options.coordinationOptions))
    }

    /// - Precondition: at most one option.
    public static func writingIntent(
        with url: URL, options: FileCoordinator.WritingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .write(options.coordinationOption))
    }

    /// The present URL of the item. Use it inside the accessor, since the item may have been moved while the access
    /// waited.
    public var url: URL { location.withLock { $0 } }

    func move(to url: URL) { location.withLock { $0 = url } }
}

extension FileCoordinator {
    /// Options of a read; raw values are Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters are not asked to save.
        public static let withoutChanges = Self(rawValue: 1)
        /// If the item is a symbolic link, its target is read, and the accessor receives the target's URL.
        public static let resolvesSymbolicLink = Self(rawValue: 2)
        /// Nothing is downloaded for the read; on a local file system there is never anything to download.
        public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
        /// The accessor receives a copy of the item; the copy of a directory is a zip archive.
        ///
        /// Other programs need not wait after the copy is made. The copy is removed when the accessor returns: open or
        /// move it.
        public static let forUploading = Self(rawValue: 8)

        var coordinationOptions: Coordination.ReadingOptions {
            Coordination.ReadingOptions(rawValue: UInt8(truncatingIfNeeded: rawValue & 15))
        }
    }

    /// The purpose of a write, at most one option at a time; raw values are Apple's.
    ///
    /// Without an option the item is updated, which includes saving it by replacing the file.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters accommodate the deletion first.
        public static let forDeleting = Self(rawValue: 1)
        /// For a directory, the write concerns everything in it.
        public static let forMoving = Self(rawValue: 2)
        /// Presenters save first.
        public static let forMerging = Self(rawValue: 4)
        /// The item at the URL, if any, is replaced. An item that is moved away while the access waits is not replaced.
        public static let forReplacing = Self(rawValue: 8)
        /// Treated as an update.
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
