// SPDX-License-Identifier: Apache-2.0
import Coordination
import Glibc
import LinuxSystem

/// Detects databases by their contents or place, if their names do not show that they are databases.
///
/// The programs of a database order their accesses themselves, so claims would only delay them.
extension Node {
    /// The most levels below a directory with ``clusterMark`` at which PostgreSQL has files, as in `pg_logical/snapshots/0-1A`.
    private static let clusterDepth = 3
    /// The file that PostgreSQL has in the directory of a cluster, and in the directory of each database.
    private static let clusterMark = NameBytes(Array("PG_VERSION".utf8))

    /// Returns whether the file is a database. If it is, also marks the node as a database. Called only when a claim would
    /// wait.
    func detectDatabase() -> Bool {
        guard !hasClassByRule, hasDatabaseHeader || isInCluster else { return false }
        noteDatabase()
        return true
    }

    /// Whether the file is a log or a database, for which programs do not take turns. False for a database's companion files,
    /// which programs create and remove like helper files.
    var isDatabaseOrLog: Bool {
        switch itemClass {
        case .log: true
        case .database: !ItemClass.isDatabaseCompanion(location.name.bytes)
        case .document, .private, .background: false
        }
    }

    /// Whether the file begins with the header of SQLite or LMDB.
    private var hasDatabaseHeader: Bool {
        do throws(Errno) {
            let file = try descriptor().descriptor.reopen(flags: O_RDONLY)
            var header = [UInt8](repeating: 0, count: ItemClass.databaseHeaderLength)
            let result: Result<Int, Errno> = header.withUnsafeMutableBytes { buffer in
                do throws(Errno) { return .success(try file.read(into: buffer, at: 0)) } catch {
                    return .failure(error)
                }
            }
            return ItemClass.isDatabaseHeader(Array(header.prefix(try result.get())))
        } catch {
            // A file that cannot be read counts as a document. In this case programs take turns with the file, and no contents
            // are lost.
            return false
        }
    }

    /// Whether the file is in a PostgreSQL cluster. Several processes use a cluster's files at the same time, and none of them
    /// is an ancestor of the others.
    var isInCluster: Bool {
        var next = parent
        for _ in 0..<Self.clusterDepth {
            guard let directory = next else { return false }
            do throws(Errno) {
                if try directory.status(of: Self.clusterMark).isRegularFile { return true }
            } catch {
                guard error == .noEntry else { return false }
            }
            next = directory.parent
        }
        return false
    }
}
