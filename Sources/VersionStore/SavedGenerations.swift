// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The file `sightings` of the store. It has the generations of documents from the last clean end of the daemon.
///
/// The daemon removes the file when it has read it. So after a crash there is no file, and the earlier generations are unknown.
extension VersionStore {
    private static let name = "sightings"
    private static let newName = "sightings.new"
    private static let mostBytes = 16 << 20

    /// Reads and removes the file. Returns nil if there is none, if it is too large, or if it cannot be removed.
    package func takeSightings() -> [UInt8]? {
        guard let files, !files.isReadOnly else { return nil }
        do throws(Errno) {
            let file = try files.home.open(Self.name)
            let size = Int(try file.status().size)
            let text = size <= Self.mostBytes ? try file.read(at: 0, count: size) : nil
            try files.home.remove(Self.name)
            try files.home.synchronize(by: files.synchronize)
            return text
        } catch {
            if error != .noEntry { files.report("the generations of documents could not be read: \(error)") }
            return nil
        }
    }

    /// Writes the file. A failure is only logged: the generations are then unknown at the next start.
    package func saveSightings(_ text: [UInt8]) {
        guard let files, !files.isReadOnly, text.count <= Self.mostBytes else { return }
        do throws(Errno) {
            do throws(Errno) { try files.home.remove(Self.newName) } catch {
                guard error == .noEntry else { throw error }
            }
            let file = try files.home.create(Self.newName)
            let written: Result<Int, Errno> = text.withUnsafeBytes { bytes in
                do throws(Errno) { return .success(try file.write(bytes, at: 0)) } catch {
                    return .failure(error)
                }
            }
            guard try written.get() == text.count else { throw .io }
            try files.synchronize(file)
            try files.home.replace(Self.name, by: Self.newName)
            try files.home.synchronize(by: files.synchronize)
        } catch {
            files.report("the generations of documents could not be saved: \(error)")
        }
    }
}
