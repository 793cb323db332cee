// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation
import Synchronization

/// One item of an access with several, and what is to be done with it.
///
/// Apple's `NSFileAccessIntent`, which is an alias here.
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

    /// Where the item is. Use this one inside the accessor: the item may have been moved while the access waited.
    public var url: URL { location.withLock { $0 } }

    func move(to url: URL) { location.withLock { $0 = url } }
}

extension FileCoordinator {
    /// How a read is done; raw values are Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters are not asked to save.
        public static let withoutChanges = Self(rawValue: 1)
        /// If the item is a symbolic link, what it leads to is read, and its URL given.
        public static let resolvesSymbolicLink = Self(rawValue: 2)
        /// Nothing is fetched for it; on a local file system there is never anything to fetch.
        public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
        /// A copy is made, of a directory a zip archive, and given in place of the item; others need not wait once there
        /// is one. It is removed when the accessor returns: open or move it.
        public static let forUploading = Self(rawValue: 8)

        var coordinationOptions: Coordination.ReadingOptions {
            Coordination.ReadingOptions(rawValue: UInt8(truncatingIfNeeded: rawValue & 15))
        }
    }

    /// What a write is for, at most one at a time; raw values are Apple's.
    ///
    /// Without any the item is updated, which includes saving it by way of another file.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters accommodate the deletion first.
        public static let forDeleting = Self(rawValue: 1)
        /// Of a directory, concerns everything in it.
        public static let forMoving = Self(rawValue: 2)
        /// Presenters save first.
        public static let forMerging = Self(rawValue: 4)
        /// Whatever is at the URL, if anything, goes; what is moved away from it while the access waits does not.
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
            default: preconditionFailure("a write has at most one option; nest one access in another for two")
            }
        }
    }
}
