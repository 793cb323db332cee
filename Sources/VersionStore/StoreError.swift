// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Why a request to the store failed.
package enum StoreError: Error, Hashable, Sendable {
    /// The daemon may not link or read the file, or may not write the source's root.
    case noRight
    case noSpace
    /// The versions of the file's owner take all the bytes they may, and none may be evicted yet.
    case overLimit(Int)
    /// The contents cannot be shared, and are larger than the largest copy.
    case tooLarge(limit: Int)
    case readOnly
    /// A directory, link, pipe, socket or device has no contents to preserve.
    case notAFile
    /// No version has this ID.
    case noSuchEntry
    /// `.truce` is not the store's own; the text says why.
    case foreign(String)
    /// Another daemon uses the store.
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

/// Runs system calls of the store, and translates their errors.
func withStoreErrors<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(StoreError) -> R {
    do throws(Errno) { return try body() } catch { throw StoreError(error) }
}
