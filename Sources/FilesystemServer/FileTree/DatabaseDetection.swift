// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Synchronization

/// Databases under names that do not say so. Their programs order their accesses themselves, and would wait here for
/// nothing.
extension Node {
    /// How far below a directory with ``clusterMark`` PostgreSQL keeps files: `pg_logical/snapshots/0-1A`.
    private static let clusterDepth = 3
    /// In a PostgreSQL cluster, and in the directory of each of its databases.
    private static let clusterMark = NameBytes(Array("PG_VERSION".utf8))

    /// Looked at only where programs meet. If it is one, it is one from now on.
    func detectDatabase() -> Bool {
        guard hasDatabaseHeader || isInCluster else { return false }
        state.withLock { $0.itemClass = .database }
        return true
    }

    /// Whether its programs take no turns, and neither make nor remove it as a helper file.
    var isDatabaseOrLog: Bool {
        switch itemClass {
        case .log: true
        case .database: !ItemClass.isDatabaseCompanion(state.withLock { $0.name }.bytes)
        case .document, .private, .background: false
        }
    }

    /// SQLite's and LMDB's.
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
            // What cannot be read is a document, which is the careful answer.
            return false
        }
    }

    /// PostgreSQL is many processes, none of which has been the others' ancestor, and one set of files.
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
