// SPDX-License-Identifier: Apache-2.0
package import FuseBridge
import LinuxSystem

/// A name in a directory. The directory is given by its node number.
package struct EntryName: Hashable, Sendable {
    let directory: NodeID
    let name: [UInt8]

    package init(_ name: [UInt8], in directory: NodeID) {
        self.directory = directory
        self.name = name
    }

    init(_ name: NameBytes, in directory: Node) { self.init(name.bytes, in: directory.id) }
}
