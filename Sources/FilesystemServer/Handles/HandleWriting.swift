// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// The stamp of a file when a program could first write to it by a handle. If the present stamp differs, the file was changed.
struct Baseline {
    let stamp: Stamp
    /// Whether the file was changed shortly before the baseline. If so, a later change may have the same time, because the
    /// clock is too coarse.
    let isRacy: Bool
}

/// The file offset at which a program was observed.
struct ObservedPosition {
    let position: Int64
    /// The time at which the program was first observed at this offset.
    let since: Instant
}

/// The changes that a program has made by a handle, as far as the daemon knows.
///
/// 1. A handle that may write or truncate has a baseline from the moment when its program can reach the data.
/// 2. When `hasWritten` has become true, only ``forgetWrites()`` makes it false. The writes so far then count as the document's
///   contents.
/// 3. A change of a name updates the times in the baseline only if the file's contents are still those of the baseline.
/// 4. A provisional copy can be taken once. The end of the copy object removes the copy's file, so the object is not released
///    while the lock is held.
struct HandleWriting {
    var baseline: Baseline?
    /// Whether the program has certainly written. The stamp may not show this, because a program can set the file's time back.
    private(set) var hasWritten = false
    /// Whether the program opened the file to append to it, but has written at an offset before the end.
    private(set) var hasOverwritten = false
    /// The file offset at which the program was last observed.
    private(set) var observedPosition: ObservedPosition?
    /// A copy of the contents that other programs left in the file. It was made before the program changed the file by this
    /// handle.
    var provisionalCopy: ProvisionalCopy?

    mutating func markWritten() { hasWritten = true }
    mutating func forgetWrites() { hasWritten = false }

    /// Notes a WRITE request. After a request, an unchanged file offset no longer shows that nothing was written, because the
    /// write may end at that offset.
    mutating func noteRequest() { if observedPosition != nil { hasWritten = true } }

    /// Notes a write that does not go to the end of the file. Returns false if the handle has made such a write before.
    mutating func noteOverwrite() -> Bool {
        defer { hasOverwritten = true }
        return !hasOverwritten
    }

    /// Notes that a name of the file was changed. This changes the time of the file's last status change, so the baseline gets
    /// the new time.
    mutating func noteNameChange(_ stamp: Stamp) {
        guard !hasWritten, let baseline, baseline.stamp.hasSameContents(as: stamp) else { return }
        self.baseline = Baseline(stamp: stamp, isRacy: baseline.isRacy)
    }

    /// Notes an observed file offset. Returns the time at which this offset was first observed.
    mutating func noteObserved(at position: Int64, now: Instant) -> Instant {
        if let observedPosition, observedPosition.position == position { return observedPosition.since }
        observedPosition = ObservedPosition(position: position, since: now)
        return now
    }
}

extension Handle {
    /// Notes the state of the file as the baseline, to detect the handle's writes by comparison with later states. `isRacy`:
    /// the clock of the file system may be too coarse to show a later change.
    func noteBaseline(_ status: FileStatus, isRacy: Bool) {
        setBaseline(Baseline(stamp: Stamp(status), isRacy: isRacy))
    }
}
