// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import CoordinationEngine
package import LinuxSystem

package struct MountConfiguration: Sendable {
    package var bounds = Bounds()
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false
    package var data = DataMode.automatic
    package var isInPlace = true
    package var sourceName = ""
    package var socketPath: String?
    package init() {}
}

package struct MountError: Error, Sendable {
    package let message: String
    package let errno: Errno
}

package struct VersionStore: Sendable {}

package final class Mount: StatusSource {
    private let configuration: MountConfiguration
    package init(
        mirroring source: consuming OwnedDescriptor, at mountpoint: String,
        configuration: MountConfiguration, store: VersionStore?, log: @escaping @Sendable (String) -> Void
    ) throws(MountError) {
        self.configuration = configuration
    }
    package func serve() throws(Errno) {}
    package func unmount(lazily: Bool) {}
    package func status() -> StatusReport { StatusReport() }
}
