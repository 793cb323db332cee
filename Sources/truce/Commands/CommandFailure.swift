// SPDX-License-Identifier: Apache-2.0
package import ControlClient

/// The failures of the command are those of the client library.
package typealias CommandFailure = ClientFailure
package typealias ExitStatus = ClientFailure.Status
