// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The versions that are possibly links to files which programs can still open by other names.
///
/// There are two reasons for such a link. The daemon was killed after it had made the link, and before the file lost its name.
/// Or the file had several names. A later write to the file would change the version.
struct LinkSurvey {
    private var links: [(id: VersionID, status: FileStatus)] = []
    /// The number of names that a file has in the store, by inode. Copies with equal contents are one file with several names.
    private var names: [UInt64: Int] = [:]

    /// Notes the status of a version's file; nil if the file could not be examined.
    mutating func note(_ id: VersionID, _ method: PreservationMethod, _ status: FileStatus?) {
        guard let status, status.linkCount > 1 else { return }
        names[status.inode, default: 0] += 1
        if method == .link || method == .unknown { links.append((id, status)) }
    }

    /// The versions whose files have names outside the store.
    var linksToNamedFiles: [VersionID] {
        links.filter { $0.status.linkCount > names[$0.status.inode, default: 0] }.map(\.id)
    }
}

extension VersionFiles {
    /// Replaces each link to a file that has a name outside the store by a copy. Called when the store is opened.
    ///
    /// If a link cannot be replaced, it stays: its contents are those of the file at any time.
    func detach(_ survey: LinkSurvey, limit: Int) {
        for id in survey.linksToNamedFiles {
            do throws(StoreError) {
                try detach(id, limit: limit)
            } catch {
                report(
                    "kept/\(id) changes when programs write to its file, as it could not be copied (\(error))"
                )
            }
        }
    }
}
