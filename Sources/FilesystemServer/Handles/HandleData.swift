// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The data route of a handle, and the descriptor of the file below.
///
/// 1. The route is set before the handle enters the table, and never changes. Whether the kernel caches the data is decided
///   when the open is answered.
/// 2. With the route `daemon`, the handle has a descriptor until the budget closes it. It is opened again when a request needs
///   it.
/// 3. With the route `kernel`, a descriptor is opened when a request needs it: a copy, an allocation or fsync(2).
/// 4. An error of writing is reported once. If the handle has a descriptor, the descriptor reports the error. Otherwise the
///   error is stored here.
struct HandleData {
    enum Route {
        /// The kernel moves the data. `mayOutlive` means that a mapping that is made by the handle may exist longer than the
        /// handle's descriptor (D131).
        case kernel(mayOutlive: Bool)
        /// The daemon moves the data. `fillsPageCache` means that the kernel caches the contents that it reads by the handle.
        case daemon(fillsPageCache: Bool)
    }

    private(set) var route = Route.kernel(mayOutlive: false)
    /// The descriptor of the file below; nil if the daemon does not have it open.
    private(set) var descriptor: Handle.SharedFile?
    /// An error of writing that is not reported yet. Either another handle's fsync(2) found the error while this handle had no
    /// descriptor, or a flush found it.
    private var owedError: Errno?

    /// Whether the daemon moves the data.
    var isMovedHere: Bool { if case .daemon = route { true } else { false } }
    var mayOutlive: Bool { if case .kernel(mayOutlive: true) = route { true } else { false } }
    var fillsPageCache: Bool { if case .daemon(fillsPageCache: true) = route { true } else { false } }

    /// Notes that the daemon moves the data by an open descriptor.
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

    /// Stores a descriptor, unless another thread has already stored one. Returns the stored descriptor, which the caller
    /// should use.
    mutating func keep(_ file: Handle.SharedFile) -> Handle.SharedFile {
        if let descriptor { return descriptor }
        descriptor = file
        return file
    }

    /// Takes out the descriptor. The caller releases the lock first, and then the descriptor.
    mutating func takeDescriptor() -> Handle.SharedFile? { descriptor.take() }

    /// Stores an error of writing that another handle found. If this handle has a descriptor, the descriptor reports the error,
    /// and nothing is stored.
    mutating func owe(_ error: Errno) { if descriptor == nil { owedError = error } }
    /// Stores an error of the flush that comes before the descriptor is closed.
    mutating func oweFlush(_ error: Errno) { owedError = error }
    mutating func takeOwedError() -> Errno? { owedError.take() }
}
