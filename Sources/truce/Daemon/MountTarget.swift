// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import ControlClient
import ControlServer
import CoordinationEngine
import FilesystemServer
import Glibc
import History
import LinuxSystem
import VersionStore

/// The configuration of a mount, in the forms that the other modules need.
extension MountPlan.Target {
    func configuration(_ socket: borrowing ControlSocket, _ rules: Rules) -> MountConfiguration {
        var configuration = MountConfiguration()
        configuration.bounds = options.bounds
        configuration.allowOther = options.allowOther
        configuration.readOnly = options.readOnly
        configuration.nosuid = options.nosuid
        configuration.nodev = options.nodev
        configuration.noexec = options.noexec
        configuration.data = options.data
        configuration.isInPlace = isInPlace
        configuration.replacesDeadMount = replacesDeadMount
        configuration.sourceName = source
        configuration.socketPath = socket.sharedPath ?? socket.path
        configuration.ownerSocketPath = socket.path
        configuration.programs = rules.programs
        configuration.paths = rules.paths
        configuration.rules = rules.report
        return configuration
    }

    var controlled: ControlledMount {
        ControlledMount(
            mountpoint: mountpoint, source: source, user: geteuid(), version: Truce.version,
            isShared: geteuid() == 0 && options.allowOther)
    }

    /// Opens the store in the source.
    ///
    /// If the source is read-only, nothing can be preserved. The store's error messages then say so.
    func openStore(
        in source: borrowing OwnedDescriptor, lockedBy sourceLock: SourceLock,
        log: @escaping @Sendable (String) -> Void
    ) throws(CommandFailure) -> VersionStore {
        let name = self.source.printable
        var holder: Int32?
        do throws(StoreError) {
            return try VersionStore(in: source, limits: options.versionLimits, log: log) {
                file throws(Errno) in
                if try sourceLock.acquire(store: file) { return true }
                holder = LockHolders(of: file).pids.first
                return false
            }
        } catch .foreign(let why) {
            throw CommandFailure(.failed, "'\(name)/.truce' is not truce's own: \(why)")
        } catch .inUse {
            let by = holder.map { " by pid \($0)" } ?? ""
            throw CommandFailure(
                .failed, "'\(name)' is already mounted by truce: its store is in use\(by)")
        } catch .noSpace {
            throw CommandFailure(.failed, "'\(name)' has no room for the store of versions")
        } catch .io(let errno) {
            throw CommandFailure(
                .failed, "the store of versions in '\(name)' cannot be opened: \(errno)")
        } catch {
            throw CommandFailure(.failed, "the store of versions cannot be opened: \(error)")
        }
    }

    /// Opens the history in the store's directory. If that fails, nothing is recorded, and the log says why.
    func openHistory(of store: VersionStore, log: @escaping @Sendable (String) -> Void) -> HistoryLog? {
        do throws(StoreError) {
            guard let directory = try store.historyDirectory() else { return nil }
            return HistoryLog(in: directory, report: log)
        } catch {
            log("nothing is recorded in the history: \(error.sentence)")
            return nil
        }
    }

    /// Returns the object through which clients of the control socket read the store.
    func preservedVersions(
        of store: VersionStore, in source: borrowing OwnedDescriptor
    ) throws(Errno) -> PeerVersionStore {
        PeerVersionStore(store, in: try OwnedDescriptor.duplicating(source.rawValue))
    }
}
