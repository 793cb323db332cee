// SPDX-License-Identifier: Apache-2.0
package import ControlClient

/// The command uses the same type of failure as the client library.
package typealias CommandFailure = ClientFailure
package typealias ExitStatus = ClientFailure.Status
