// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// How the data of a handle moves, and the descriptor for it.
///
/// 1. The route is set before the handle enters the table, and never changes. Whether the kernel fills its cache is known
///    when the open is answered.
/// 2. With `daemon`, the descriptor is there until the budget closes it, and is reopened when needed.
/// 3. With `kernel`, the descriptor is opened when a request needs it: a copy, an allocation or fsync(2).
/// 4. An owed error is reported once. A handle with a descriptor receives the error by that instead.
struct HandleData {
    enum Route {
        /// The kernel moves the data. `mayOutlive`: a mapping made through the handle may outlive it (D131).
        case kernel(mayOutlive: Bool)
        /// This process moves the data. `fillsPageCache`: the kernel caches the contents that it reads by the handle.
        case daemon(fillsPageCache: Bool)
    }

    private(set) var route = Route.kernel(mayOutlive: false)
    /// The descriptor of the file below.
    private(set) var descriptor: Handle.SharedFile?
    /// An error that another handle's fsync found while this one had no descriptor to receive it, or that a flush found.
    private var owedError: Errno?

    /// Whether this process moves the data.
    var isMovedHere: Bool { if case .daemon = route { true } else { false } }
    var mayOutlive: Bool { if case .kernel(mayOutlive: true) = route { true } else { false } }
    var fillsPageCache: Bool { if case .daemon(fillsPageCache: true) = route { true } else { false } }

    /// The route leads through this process, by a descriptor that is open.
    mutating func moveHere(through file: Handle.SharedFile) {
        route = .daemon(fillsPageCache: false)
        descriptor = file
    }

    mutating func noteMapping(mayOutlive: Bool) {
        if case .kernel = route { route = .kernel(mayOutlive: mayOutlive) }
    }

    mutating func noteCaching(fillsPageCache: Bool) {
        if case .daemon = route { route = .daemon(fillsPageCache: fillsPageCache) }
    }

    /// Stores a descriptor, unless another thread was faster. Returns the stored one.
    mutating func keep(_ file: Handle.SharedFile) -> Handle.SharedFile {
        if let descriptor { return descriptor }
        descriptor = file
        return file
    }

    /// The caller releases the descriptor after the lock.
    mutating func takeDescriptor() -> Handle.SharedFile? { descriptor.take() }

    /// Another handle found an error of writing.
    mutating func owe(_ error: Errno) { if descriptor == nil { owedError = error } }
    /// A flush before the descriptor was dropped found an error.
    mutating func oweFlush(_ error: Errno) { owedError = error }
    mutating func takeOwedError() -> Errno? { owedError.take() }
}
