// SPDX-License-Identifier: Apache-2.0
import Foundation

/// What a daemon still has when no program has a file open and none waits.
enum LeakCheck {
    /// What a daemon opens for itself in the course of time: of 64 threads that made requests, of clients of its socket, watches and
    /// threads that wait.
    private static let mostDescriptors = 120

    /// Fails if the daemon keeps a claim, an open file, a way of data or descriptors, or if a thread of it goes on running.
    static func check(_ mount: String, since first: Int, _ look: () throws -> MountStatus) throws {
        var (found, journal) = ("", "")
        // The kernel tells of a close when it has time.
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

    /// Descriptors of a daemon that are of no file below; 0 if they may not be looked at.
    static func otherDescriptors(of status: MountStatus) -> Int {
        let all = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(status.pid)/fd")
        return all.map { $0.count - status.use.descriptors } ?? 0
    }

    /// The threads of a process that run, or wait for a processor.
    private static func runningThreads(of pid: Int32) -> [String] {
        let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")
        return (threads ?? []).filter { thread in
            Int32(thread).flatMap { ProcessStatus(of: $0) }?["State"]?.hasPrefix("R") ?? false
        }
    }
}
