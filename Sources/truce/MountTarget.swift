// SPDX-License-Identifier: Apache-2.0
import ControlServer
import CoordinatedFilesystem
import Glibc
import LinuxSystem

/// What the other rooms are told about a mount.
extension MountPlan.Target {
    func configuration(socketPath: String) -> MountConfiguration {
        var configuration = MountConfiguration()
        configuration.bounds = options.bounds
        configuration.allowOther = options.allowOther
        configuration.readOnly = options.readOnly
        configuration.nosuid = options.nosuid
        configuration.nodev = options.nodev
        configuration.noexec = options.noexec
        configuration.data = options.data
        configuration.isInPlace = isInPlace
        configuration.sourceName = source
        configuration.socketPath = socketPath
        return configuration
    }

    var controlled: ControlledMount {
        ControlledMount(mountpoint: mountpoint, source: source, user: geteuid(), version: Truce.version)
    }

    /// The store of kept contents in the source.
    func openStore(
        in source: borrowing OwnedDescriptor, log: @escaping @Sendable (String) -> Void
    ) throws(CommandFailure) -> VersionStore? { nil }

    /// What the control socket sees of it.
    func keptContents(of store: VersionStore?) -> (any KeptContents)? { nil }
}
