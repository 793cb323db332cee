// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The calling process.
package enum OwnProcess {
    /// `getpid(2)`.
    package static var id: Int32 { getpid() }
    /// `geteuid(2)`: the user whose rights it has.
    package static var user: UInt32 { geteuid() }

    /// Gives the calling thread a name, and so the process if it is its first one: what ps(1) shows and killall(1) looks for.
    package static func nameThread(_ name: String) { clinux_name_thread(name) }

    /// How many processors the calling thread may run on.
    package static var processors: Int { Int(clinux_processors()) }

    /// Puts the calling thread onto another one of the processors on which it may run; false if there is none. It is not bound to
    /// that: the kernel may take it back.
    ///
    /// Whoever sets at this moment where it may run is overruled.
    package static func changeProcessor() -> Bool { clinux_change_processor() != 0 }

    /// Has glibc give back what is free at the end of each of its heaps, but for 64 KiB (`mallopt(3)`).
    ///
    /// Otherwise only the first heap gives it back: ``releaseFreeMemory()`` leaves the ends of the others, and its own bound grows with
    /// what a program frees.
    package static func limitRetainedMemory() { clinux_keep_little_free_memory() }

    /// `malloc_trim(3)`: gives pages back that are free but for what glibc keeps between the blocks in use.
    ///
    /// Takes about a second for each 5 GB, during which other threads may wait for memory.
    package static func releaseFreeMemory() { clinux_release_free_memory() }

    /// Its environment for a child, with some variables set anew or, by nil, left out.
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
