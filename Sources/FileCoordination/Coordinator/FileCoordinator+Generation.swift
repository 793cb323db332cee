// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
public import Foundation

extension FileCoordinator {
    /// The generation of an item: a text that names its present contents. Each write of the contents gives the item another
    /// generation.
    ///
    /// To write what was made of the contents, and nothing else: get the generation within the access that reads the contents,
    /// and pass it to the write. So no change of another program is overwritten unseen. Compare generations only as a whole.
    ///
    /// The method can wait for the daemon. It throws ``FileCoordinationError``.
    public static func generation(ofItemAt url: URL) throws(FileCoordinationError) -> String {
        let location = try FileLocation(url)
        let result: GenerationResult = try location.connection.call(
            .generation(GenerationParameters(path: location.pathInMount)))
        return result.generation
    }
}
