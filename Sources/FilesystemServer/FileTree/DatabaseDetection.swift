// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Detects databases that do not have the name of one. Their programs order their accesses themselves, so claims would only
/// delay them.
extension Node {
    /// PostgreSQL keeps files up to so many levels below a directory with ``clusterMark``: `pg_logical/snapshots/0-1A`.
    private static let clusterDepth = 3
    /// PostgreSQL has this file in a cluster's directory and in the directory of each database.
    private static let clusterMark = NameBytes(Array("PG_VERSION".utf8))

    /// Detects whether the file is a database, and remembers it if so. Called only on contention.
    func detectDatabase() -> Bool {
        guard hasDatabaseHeader || isInCluster else { return false }
        noteDatabase()
        return true
    }

    /// Whether its programs take no turns, and neither make nor remove it as a helper file.
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
            // An unreadable file is treated as a document: that is the safe choice.
            return false
        }
    }

    /// Whether the file lies in a PostgreSQL cluster. Its processes share files, but none is the ancestor of the others.
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
