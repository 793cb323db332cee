// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// The file's stamp when writing became possible; a later stamp shows a change.
struct Baseline {
    let stamp: Stamp
    /// The baseline is too recent: the file system's clock may not distinguish a later change from it.
    let isRacy: Bool
}

/// The position in a file at which a program was observed.
struct ObservedPosition {
    let position: Int64
    /// The time of the first observation there.
    let since: Instant
}

/// The changes of a handle, as far as the daemon knows them.
///
/// 1. A handle that may write or truncate has a baseline since its data became reachable.
/// 2. `hasWritten` only rises. It falls when the writes so far are taken as the document's contents (``forgetWrites()``).
/// 3. A new name moves the baseline only as long as the baseline shows all changes.
/// 4. A provisional copy is taken once. It removes its file when it is released, so it is released after the lock.
struct HandleWriting {
    var baseline: Baseline?
    /// The file had changed before its former time was restored; afterwards, the stamp no longer shows the change.
    private(set) var hasWritten = false
    /// It was opened to append, but has written elsewhere.
    private(set) var hasOverwritten = false
    /// The last observed file position of its program.
    private(set) var observedPosition: ObservedPosition?
    /// The contents that others left in the file while this handle had changed nothing.
    var provisionalCopy: ProvisionalCopy?

    mutating func markWritten() { hasWritten = true }
    mutating func forgetWrites() { hasWritten = false }

    /// A request to write came after the program's position was observed. The position proves nothing then: the write may
    /// end just there.
    mutating func noteRequest() { if observedPosition != nil { hasWritten = true } }

    /// Returns whether it is the first write that does not go to the end of the file.
    mutating func noteOverwrite() -> Bool {
        defer { hasOverwritten = true }
        return !hasOverwritten
    }

    /// A name of the file was changed, which changes the last time of its stamp.
    mutating func noteNameChange(_ stamp: Stamp) {
        guard !hasWritten, let baseline, baseline.stamp.hasSameContents(as: stamp) else { return }
        self.baseline = Baseline(stamp: stamp, isRacy: baseline.isRacy)
    }

    /// Returns the time since when the position was observed to be the same.
    mutating func noteObserved(at position: Int64, now: Instant) -> Instant {
        if let observedPosition, observedPosition.position == position { return observedPosition.since }
        observedPosition = ObservedPosition(position: position, since: now)
        return now
    }
}

extension Handle {
    /// Notes the state of the file from which the writes of this handle are told. `isRacy`: the file system's clock may not
    /// distinguish a later change.
    func noteBaseline(_ status: FileStatus, isRacy: Bool) {
        setBaseline(Baseline(stamp: Stamp(status), isRacy: isRacy))
    }
}
