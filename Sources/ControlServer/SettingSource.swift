// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol

/// The configuration files of a mount, as the control socket uses them.
package protocol SettingSource: Sendable {
    /// Returns the settings that hold for a file. First reads the configuration files that have changed, which can block.
    ///
    /// `path` is relative to the root of the mount. The file need not exist.
    func settings(forFileAt path: [UInt8]) -> SettingsResult
}
