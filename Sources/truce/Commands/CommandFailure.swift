// SPDX-License-Identifier: Apache-2.0
package import ControlClient

/// The command says what the client says.
package typealias CommandFailure = ClientFailure
package typealias ExitStatus = ClientFailure.Status
