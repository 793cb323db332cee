// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem

extension Node {
    /// The objects and facts that all nodes of a mount share.
    final class Context: Sendable {
        let budget: DescriptorBudget
        let connection: Connection
        let forgottenDirectories: ForgottenDirectories
        let submounts: Submounts
        /// Whether the source's file system changes a file's times when a program changes the file by a mapping.
        let timesShowStores: Bool
        /// Whether operations on files of the source never wait for a network or another process.
        let isLocal: Bool
        let threads: WorkerPools
        /// The rules for paths of the configuration files.
        let policies: PathPolicies
        let renames = ActiveRenames()

        init(
            budget: DescriptorBudget, connection: Connection, forgottenDirectories: ForgottenDirectories,
            submounts: Submounts, source: FilesystemStatus, threads: WorkerPools,
            policies: PathPolicies
        ) {
            self.budget = budget
            self.connection = connection
            self.forgottenDirectories = forgottenDirectories
            self.submounts = submounts
            timesShowStores = FileTimes.detectMappedStores(on: source)
            isLocal = source.isLocal
            self.threads = threads
            self.policies = policies
        }
    }
}
