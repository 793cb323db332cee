// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem

extension Node {
    /// The state that all nodes of a mount share.
    final class Context: Sendable {
        let budget: DescriptorBudget
        let connection: Connection
        let forgottenDirectories: ForgottenDirectories
        let submounts: Submounts
        /// Whether stores to a mapping of a file change the file's times.
        let timesShowStores: Bool
        /// Whether the source's file system waits for no network or other process.
        let isLocal: Bool
        let threads: WorkerPools
        let renames = ActiveRenames()

        init(
            budget: DescriptorBudget, connection: Connection, forgottenDirectories: ForgottenDirectories,
            submounts: Submounts, source: FilesystemStatus, threads: WorkerPools
        ) {
            self.budget = budget
            self.connection = connection
            self.forgottenDirectories = forgottenDirectories
            self.submounts = submounts
            timesShowStores = FileTimes.detectMappedStores(on: source)
            isLocal = source.isLocal
            self.threads = threads
        }
    }
}
