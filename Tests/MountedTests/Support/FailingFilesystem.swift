// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// The faults of a file system that a test causes while programs work on it.
enum FilesystemFault: String, CaseIterable, Sendable {
    /// The file system has no free block, has no free inode, or the user's quota is used up.
    case full, withoutInodes, overQuota
    /// The disk is gone, the file system has found an error in itself, or an administrator made it read-only.
    case broken, failed, madeReadOnly
    /// Data that is not in the page cache cannot be read; or written data finds no room on the disk, which is reported late.
    case unreadable, thin

    /// The faults for which the tests try each file system call.
    static let total: [FilesystemFault] = [
        .full, .withoutInodes, .overQuota, .broken, .failed, .madeReadOnly,
    ]

    /// The error that most calls give under this fault.
    var errno: String {
        switch self {
        case .full, .withoutInodes, .thin: "ENOSPC"
        case .overQuota: "EDQUOT"
        case .broken, .unreadable: "EIO"
        case .failed, .madeReadOnly: "EROFS"
        }
    }

    /// The open mode of the holder. A file system cannot be made read-only while a file is open for writing.
    var opens: String { [.madeReadOnly, .unreadable].contains(self) ? "reading" : "writing" }
}

/// A small file system in a file, which only root can mount. Truce may be mounted over it.
final class FailingFilesystem {
    /// The mountpoint of the file system, without Truce.
    let base: String
    /// A second mountpoint of the same file system, over which Truce may be mounted.
    let source: String
    /// The pid of the Truce daemon; nil without a mount.
    private(set) var pid: Int32?
    let kind: FilesystemFault
    let place: String

    static func with<Result>(
        _ kind: FilesystemFault, options: String? = nil, _ body: (FailingFilesystem) throws -> Result
    ) throws -> Result {
        let small = try FailingFilesystem(kind)
        do {
            if let options { try small.mount(options) }
            let result = try body(small)
            if let pid = small.pid {
                try TruceCommand.run("unmount", small.source)
                try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                    !MountedDirectory.isAlive(pid)
                }
            }
            try Self.unmounting.run(small.place)
            return result
        } catch {
            _ = try TruceCommand.attempt("unmount", "--lazy", small.source)
            _ = try Self.unmounting.attempt(small.place)
            throw error
        }
    }

    private init(_ kind: FilesystemFault) throws {
        self.kind = kind
        place = try Lab.freshDirectory("failing")
        (base, source) = (place + "/base", place + "/source")
        switch kind {
        case .overQuota: try Self.makingWithQuotas.run(place)
        case .thin: try Self.makingThin.run(place)
        case .full, .withoutInodes, .broken, .failed, .madeReadOnly, .unreadable:
            try Self.making.run(place)
        }
    }

    private func mount(_ options: String) throws {
        let data = try Lab.dataPath == .daemon ? "data=daemon" : "data=auto"
        try TruceCommand.run("mount", source, "-o", "\(options),\(data)")
        pid = try status().pid
    }

    func status() throws -> MountStatus {
        try MountStatus(json: try TruceCommand.run("status", "--json", source).output)
    }

    /// Makes the file system fail from now on.
    func fail() throws {
        let worker = try Self.worker()
        switch kind {
        case .full: try worker.must("fill", base)
        case .withoutInodes: try worker.must("exhaust", base)
        case .overQuota: try Program("btrfs").run("qgroup", "limit", "256K", base)
        case .broken: try worker.must("break", base)
        case .failed: try Self.failing.run(base)
        case .madeReadOnly: try Program("mount").run("-o", "remount,ro", base)
        case .unreadable:
            try worker.must("drop", base + "/tree")
            try Program("truncate").run("--size=0", place + "/image")
        case .thin: throw TestFailure("what is thin fails when it is written to")
        }
        worker.program.endInput()
        _ = try worker.program.wait(within: .seconds(10))
    }

    func waitUntilParked(_ actor: ScriptedProcess) throws {
        try eventually(within: .seconds(10), "process \(actor.pid) to wait in \(source)") {
            try status().waiting.contains { $0.actor.pid == actor.pid }
        }
    }

    /// Starts a program that makes the calls of `Tests/Workers/failures`.
    static func worker() throws -> ScriptedProcess {
        try ScriptedProcess(
            Program("python3").start(Checkout.path("Tests/Workers/failures"), input: .keyboard))
    }

    /// Checks that no program holds, waits for or presents anything.
    func checkForLeaks(sourceLocation: SourceLocation = #_sourceLocation) throws {
        struct PsOutput: Decodable {
            struct Place: Decodable { var mountpoint: String }
            struct Claim: Decodable { var path: String }
            struct Mount: Decodable {
                var mount: Place
                var claims: [Claim]
            }
            var mounts: [Mount]
        }
        // The kernel may report a close to the daemon with a delay, so the test waits.
        try eventually(within: .seconds(10), "the end of all claims in \(source)") {
            let output = try TruceCommand.run("ps", "--json", source).output
            let mounts = try JSONDecoder().decode(PsOutput.self, from: Data(output)).mounts
            return mounts.first { $0.mount.mountpoint == source }?.claims.isEmpty ?? false
        }
        let status = try status()
        #expect(
            status.use.openFiles == 0 && status.use.routes == 0, "\(status.use)",
            sourceLocation: sourceLocation)
        #expect(status.waiting.isEmpty, sourceLocation: sourceLocation)
        #expect(status.pid == pid, sourceLocation: sourceLocation)
        #expect(status.options.dataPath == "\(try Lab.dataPath)", sourceLocation: sourceLocation)
        checkForcedSteps(status, sourceLocation: sourceLocation)
    }

    private static let making = Script(
        """
        cd "$1"
        mkdir base source
        truncate --size=4M image
        mkfs.ext4 -q -F -b 1024 -m 0 -N 200 image
        mount -o loop,errors=remount-ro image base
        mount --bind base source
        mkdir base/tree
        """)

    private static let makingWithQuotas = Script(
        """
        cd "$1"
        mkdir base source
        truncate --size=32M image
        mkfs.btrfs -q --mixed image
        mount -o loop image base
        btrfs quota enable base
        mount --bind base source
        mkdir base/tree
        head --bytes=2M /dev/zero >base/much
        sync --file-system base
        """)

    /// A script that makes a disk which can store only the data that it had when it was made.
    private static let makingThin = Script(
        """
        cd "$1"
        mkdir base source disk
        mount -t tmpfs -o size=4m none disk
        truncate --size=16M disk/image
        mkfs.ext4 -q -F -b 1024 -m 0 -N 200 -O ^has_journal -E nodiscard disk/image
        mount -o loop disk/image base
        mount --bind base source
        mkdir base/tree
        """)

    /// A script that puts the file system into the same state as a fault that the kernel has found.
    private static let failing = Script(
        """
        device=$(findmnt --noheadings --output SOURCE --mountpoint "$1")
        echo impossible >"/sys/fs/ext4/${device##*/}/trigger_fs_error"
        """)

    private static let unmounting = Script(
        """
        umount "$1/source" || umount --lazy "$1/source"
        umount "$1/base" || umount --lazy "$1/base"
        [[ ! -d $1/disk ]] || umount "$1/disk" || umount --lazy "$1/disk"
        """)
}
