// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Checks that a daemon uses no resources when no program has a file open and no request waits.
enum LeakCheck {
    /// The maximum number of descriptors that a daemon opens for its own use while it runs. It opens them for control clients,
    /// watches, waiting threads, and up to 64 threads of clients.
    private static let mostDescriptors = 120

    /// Fails if the daemon still has a claim, an open file, a record of a file's data path or too many descriptors. Also fails
    /// if one of its threads runs.
    static func check(_ mount: String, since first: Int, _ look: () throws -> MountStatus) throws {
        var (found, journal) = ("", "")
        // The kernel sometimes reports a close to the daemon only after close(2) has returned.
        try eventually(
            within: .seconds(10), "the daemon of \(mount) to have nothing left: \(found)\n\(journal)"
        ) {
            let status = try look()
            let (use, threads) = (status.use, runningThreads(of: status.pid))
            let others = otherDescriptors(of: status) - first
            (found, journal) = (
                "\(use), \(others) more descriptors, running threads \(threads)", status.journalText()
            )
            return use.claims == 0 && use.openFiles == 0 && use.routes == 0 && threads.isEmpty
                && others <= mostDescriptors
        }
    }

    /// Returns how many descriptors the daemon has besides those of source files; 0 if the caller may not read this number.
    static func otherDescriptors(of status: MountStatus) -> Int {
        let all = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(status.pid)/fd")
        return all.map { $0.count - status.use.descriptors } ?? 0
    }

    /// Returns the threads of a process that run or wait for a processor.
    private static func runningThreads(of pid: Int32) -> [String] {
        let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")
        return (threads ?? []).filter { thread in
            Int32(thread).flatMap { ProcessStatus(of: $0) }?["State"]?.hasPrefix("R") ?? false
        }
    }
}
