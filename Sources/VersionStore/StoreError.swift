// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Why the store could not do what it was asked.
package enum StoreError: Error, Hashable, Sendable {
    /// The daemon may not link or read the file, or may not write the source's root.
    case noRight
    case noSpace
    /// The versions of the file's owner take as many bytes as they may, and none may go yet.
    case overLimit(Int)
    /// The contents cannot be shared and are larger than what is copied.
    case tooLarge(limit: Int)
    case readOnly
    /// A directory, link, pipe, socket or device has no contents to keep.
    case notAFile
    /// No kept file of this ID.
    case noSuchEntry
    /// `.truce` is not the store's own; the text says in what.
    case foreign(String)
    /// Another daemon keeps files here.
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

/// Runs system calls of the store, naming their errors in its words.
func withStoreErrors<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(StoreError) -> R {
    do throws(Errno) { return try body() } catch { throw StoreError(error) }
}
