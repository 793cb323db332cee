// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// Overwrites a file in a mount with a version. The file keeps its inode, owner, mode, access control list and
/// attributes.
///
/// As for any other write, a claim is made. Presenters first save the file and relinquish it. The daemon preserves the
/// file's present contents before they are overwritten.
struct RestoredDocument {
    private let target: MountedPath

    /// Returns nil if the file does not exist, or is in no mount of Truce.
    init?(at path: [UInt8]) throws(CommandFailure) {
        var status = stat()
        guard path.withPath({ stat($0, &status) }) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        do throws(ClientFailure) {
            target = try MountedPath(path)
        } catch {
            guard error.status == .notFound else { throw error }
            return nil
        }
    }

    /// Overwrites the document with `contents`, which have already been read completely. So an error of the store
    /// cannot leave the document half overwritten.
    ///
    /// `refusal` gets the status of the document when other programs cannot write the document. If it returns a reason, nothing
    /// is written, and the reason is thrown.
    func write(
        _ contents: borrowing OwnedDescriptor, unless refusal: (FileStatus) -> String? = { _ in nil }
    ) throws(CommandFailure) {
        var wire = try DaemonClient(to: target.mount).release()
        let intent = IntentForm(target.pathInMount, .write(.forMerging))
        let access: AccessBeginResult = try wire.callPatiently(
            .beginAccess(AccessBeginParameters([intent])), in: target.mount)
        guard let path = access.intents.first?.path.bytes else {
            throw CommandFailure(.failed, "the daemon's answer could not be understood")
        }
        // The end of the connection ends the access.
        let file = try open(path, unless: refusal)
        let former: PreserveResult = try wire.callPatiently(
            .preserveVersion(PreserveParameters(path: path)), in: target.mount)
        try overwrite(file, at: path, with: contents)
        if let id = former.id {
            LineOutput.say(
                "truce: the former contents of '\(target.absolute(path).printable)' are preserved as \(id)",
                to: STDERR_FILENO)
        }
        let _: EmptyResult = try wire.callPatiently(
            .endAccess(AccessEndParameters(access: access.access)), in: target.mount)
    }

    /// Opens the document that the access is for. A directory on its path can have become a symbolic link to another place.
    private func open(
        _ path: [UInt8], unless refusal: (FileStatus) -> String?
    ) throws(CommandFailure) -> OwnedDescriptor {
        let reason: String
        do throws(Errno) {
            let place = try SteadyPlace(path, in: target.mount)
            let descriptor = try retryingOnInterrupt {
                place.path.withPath { Glibc.open($0, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) }
            }
            let file = OwnedDescriptor(adopting: descriptor)
            guard let refused = refusal(try file.status()) else { return file }
            reason = refused
        } catch {
            reason = "'\(target.absolute(path).printable)' cannot be written: \(error)"
        }
        throw CommandFailure(.failed, reason)
    }

    private func overwrite(
        _ file: borrowing OwnedDescriptor, at path: [UInt8], with contents: borrowing OwnedDescriptor
    ) throws(CommandFailure) {
        do throws(Errno) {
            try contents.rewind()
            let size = try contents.copyContents(to: file, limit: .max)
            try file.shorten(to: size)
            try file.synchronize()
        } catch {
            throw CommandFailure(
                .failed, "'\(target.absolute(path).printable)' cannot be written: \(error)")
        }
    }
}

/// A file without a name, for contents that must be complete before the command uses them.
struct UnnamedFile: ~Copyable {
    let descriptor: OwnedDescriptor

    init() throws(CommandFailure) {
        do throws(Errno) {
            guard let stream = tmpfile() else { throw .last }
            defer { fclose(stream) }
            descriptor = try OwnedDescriptor.duplicating(fileno(stream))
        } catch {
            throw CommandFailure(.failed, "no temporary file can be made: \(error)")
        }
    }

    func append(_ bytes: [UInt8]) throws(CommandFailure) {
        do throws(Errno) { try descriptor.writeAll(bytes) } catch {
            throw CommandFailure(.failed, "a temporary file cannot be written: \(error)")
        }
    }
}
