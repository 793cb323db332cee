// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The calling process.
package enum OwnProcess {
    /// `getpid(2)`.
    package static var id: Int32 { getpid() }
    /// `geteuid(2)`: the effective user.
    package static var user: UInt32 { geteuid() }

    /// Names the calling thread, and the process if this is its first thread, for ps(1) and killall(1).
    package static func nameThread(_ name: String) { clinux_name_thread(name) }

    /// The number of processors that the calling thread may run on.
    package static var processors: Int { Int(clinux_processors()) }

    /// Moves the calling thread to another processor that it may run on; returns false if there is none.
    ///
    /// The thread is not bound to that processor: the kernel may move it back. A concurrent change of the thread's affinity
    /// is overwritten.
    package static func changeProcessor() -> Bool { clinux_change_processor() != 0 }

    /// Makes glibc return free memory at the end of each of its heaps, except 64 KiB (`mallopt(3)`).
    ///
    /// Otherwise only the first heap returns it. ``releaseFreeMemory()`` leaves the ends of the other heaps, and glibc's own
    /// limit grows with the memory that a program frees.
    package static func limitRetainedMemory() { clinux_keep_little_free_memory() }

    /// `malloc_trim(3)`: returns free pages to the kernel, except those that glibc retains between the blocks in use.
    ///
    /// Takes about a second for each 5 GB; other threads may wait for memory meanwhile.
    package static func releaseFreeMemory() { clinux_release_free_memory() }

    /// Returns the environment for a child, with the given variables set or, with nil, removed.
    package static func environment(setting changes: [(name: String, value: [UInt8]?)]) -> [[UInt8]] {
        let added = changes.compactMap { change in change.value.map { Array("\(change.name)=".utf8) + $0 } }
        let replaced = changes.map { Array("\($0.name)=".utf8) }
        var kept: [[UInt8]] = []
        var next = environ
        while let entry = next.pointee {
            let bytes = UnsafeBufferPointer(start: entry, count: strlen(entry)).map { UInt8(bitPattern: $0) }
            if !replaced.contains(where: { bytes.starts(with: $0) }) { kept.append(bytes) }
            next += 1
        }
        return kept + added
    }
}
