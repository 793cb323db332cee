// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import LinuxSystem
import TestSupport
import Testing

/// Root checks a mount and then removes it. It must remove this mount and no other, even if a user renames directories in
/// between.
@Suite(.enabled(if: geteuid() == 0), .serialized) struct UnmountingTests {
    /// Two mounts of one user, at `a/mount` and `b/mount`. The user can exchange the directories `a` and `b`.
    private struct Stage {
        let place: String
        let mount: MountEntry

        init() throws {
            place = try Script(
                """
                cd "$(mktemp -d)"
                mkdir -p a/mount b/mount
                mount -t tmpfs wanted a/mount
                mount -t tmpfs other b/mount
                pwd -P
                """
            ).run().text.trimmingCharacters(in: .newlines)
            mount = try #require(try MountTable.current().top(at: Array("\(place)/a/mount".utf8)))
        }

        func swap() throws(Errno) {
            for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
                guard rename("\(place)/\(from)", "\(place)/\(to)") == 0 else { throw .last }
            }
        }

        func link() throws(Errno) {
            guard rename("\(place)/a", "\(place)/c") == 0, symlink("b", "\(place)/a") == 0 else {
                throw .last
            }
        }

        /// The sources of those mounts of the test that still exist.
        var left: [String] {
            get throws {
                let inside = Array((place + "/").utf8)
                return try MountTable.current().entries.filter { $0.mountpoint.starts(with: inside) }
                    .map { String(decoding: $0.source, as: UTF8.self) }
            }
        }

        func strike() {
            do {
                try Script(
                    """
                    findmnt --raw --noheadings --output TARGET | grep "^$1/" |
                        xargs --no-run-if-empty umount --lazy
                    rm -r "$1"
                    """
                ).run(place)
            } catch {
                Issue.record("\(place) stays: \(error)")
            }
        }
    }

    private func onStage(_ body: (Stage) throws -> Void) throws {
        let stage = try Stage()
        defer { stage.strike() }
        try body(stage)
    }

    @Test("If the mount's directory is renamed before the check, the mount is unmounted at its new path")
    func aMountMovedBeforeTheCheckIsUnmounted() throws {
        try onStage { stage in
            try stage.swap()
            try stage.mount.unmountUnused()
            #expect(try stage.left == ["other"])
        }
    }

    @Test(
        "If the mount's directory is renamed between check and unmount, the mount is unmounted at its new path"
    )
    func aMountMovedAfterTheCheckIsUnmounted() throws {
        try onStage { stage in
            try stage.mount.unmountUnused { () throws(Errno) in try stage.swap() }
            #expect(try stage.left == ["other"])
        }
    }

    @Test(
        "If a link replaces the mount's directory, before or after the check, the mount itself is unmounted",
        arguments: [false, true])
    func aMountBehindANewLinkIsUnmounted(late: Bool) throws {
        try onStage { stage in
            if !late { try stage.link() }
            try stage.mount.unmountUnused { () throws(Errno) in if late { try stage.link() } }
            #expect(try stage.left == ["other"])
        }
    }

    @Test("A lazy unmount removes a moved mount at its new path")
    func aLazyUnmountRemovesAMovedMountAtItsNewPath() throws {
        try onStage { stage in
            try stage.swap()
            #expect(try stage.mount.detach { _ in })
            #expect(try stage.left == ["other"])
        }
    }

    @Test("A mount in use stays mounted, and the unmount of a missing mount fails as stale")
    func aBusyMountStaysAndAMissingMountIsStale() throws {
        try onStage { stage in
            let inside = try OwnedDescriptor.openResolved(Array("\(stage.place)/a/mount".utf8))
            #expect(throws: Errno.busy) { try stage.mount.unmountUnused() }
            #expect(try stage.left.sorted() == ["other", "wanted"])
            _ = consume inside
            try stage.mount.unmountUnused()
            #expect(throws: Errno.stale) { try stage.mount.unmountUnused() }
            #expect(try stage.left == ["other"])
        }
    }
}
