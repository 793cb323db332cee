// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// System calls on the calling process itself.
package enum OwnProcess {
    /// `getpid(2)`: the process ID.
    package static var id: Int32 { getpid() }
    /// `geteuid(2)`: the effective user of the process.
    package static var user: UInt32 { geteuid() }

    /// Sets the name of the calling thread that ps(1) shows. The name of the first thread is also the name of the process.
    package static func nameThread(_ name: String) { clinux_name_thread(name) }

    /// The number of processors that the calling thread may run on.
    package static var processors: Int { Int(clinux_processors()) }

    /// Moves the calling thread to another processor that it may run on. Returns false if there is no such processor.
    ///
    /// The kernel can move the thread back later. If another thread changes this thread's affinity at the same time, that
    /// change is lost.
    package static func changeProcessor() -> Bool { clinux_change_processor() != 0 }

    /// Makes glibc return the free memory at the end of each of its heaps to the kernel, except 64 KiB (`mallopt(3)`).
    ///
    /// Without this call, glibc returns free memory only at the end of its first heap. Its own limit for this grows with the
    /// memory that a program frees. ``releaseFreeMemory()`` does not replace this call, because it leaves out the ends of the
    /// other heaps.
    package static func limitRetainedMemory() { clinux_keep_little_free_memory() }

    /// Returns free memory pages to the kernel, even between blocks in use: `malloc_trim(3)`.
    ///
    /// The call takes about a second for each 5 GB. Other threads that need memory can wait during the call.
    package static func releaseFreeMemory() { clinux_release_free_memory() }

    /// Returns this process's environment with changes, for a child process. A change sets a variable; if its value is nil, it
    /// removes the variable.
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
