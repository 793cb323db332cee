// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Why a request to the store failed.
package enum StoreError: Error, Hashable, Sendable {
    /// The daemon has no right to link or read the file, or to write in the root of the source.
    case noRight
    case noSpace
    /// The versions of the file's owner take all the bytes that one owner's versions may take, and no version can be evicted
    /// yet.
    case overLimit(Int)
    /// The file is larger than the largest copy that the store makes, and the file system cannot share the file's blocks.
    case tooLarge(limit: Int)
    case readOnly
    /// The item is no regular file. A directory, link, pipe, socket or device has no contents that can be preserved.
    case notAFile
    /// No version in the store has the given ID.
    case noSuchEntry
    /// The source has a `.truce` that is not a store of this daemon. The text gives the reason for users.
    case foreign(String)
    /// Another daemon has locked the store.
    case inUse
    case io(Errno)

    init(_ error: Errno) {
        self =
            switch error {
            case .notPermitted, .noAccess: .noRight
            case .noSpace, .quotaExceeded: .noSpace
            case .readOnly: .readOnly
            default: .io(error)
            }
    }
}

/// Runs system calls of the store, and throws their errors as ``StoreError``.
func withStoreErrors<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(StoreError) -> R {
    do throws(Errno) { return try body() } catch { throw StoreError(error) }
}
