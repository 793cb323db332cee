// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The configuration files of one mount. They are read again when they have changed.
package struct RuleFiles: Sendable {
    /// The root of the source, below the mount.
    private final class SourceRoot: Sendable {
        let descriptor: OwnedDescriptor
        init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }
    }

    /// One place where a configuration file may be.
    private struct Place: Sendable {
        /// The path of the file, as users see it.
        let path: String
        /// The path of the file from the root of the source; nil for a file that is not in the source.
        var pathInSource: String?
        let owners: Set<UInt32>
        var scope = RuleScope.everywhere
        /// The stamp of the file's contents when they were read. It is nil if they must be read again.
        var stamp: TrustedFile.Stamp?
        /// The rules of the file; nil if there is no file.
        var source: Rules.Source?
    }

    package static let systemPath = "/etc/truce/truce.toml"
    /// The name of the configuration file at the root of a source.
    package static let nameInSource = ".truce.toml"

    private let root: SourceRoot?
    private var places: [Place] = []

    /// Reads the file in the source, the administrator's file, and the file of `user`, which is the user that mounts.
    ///
    /// If a file has a fault, none of its rules is in force. The mount does not fail, because the machine possibly needs the
    /// mount to boot. The user's file and the file in the source must belong to that user or to root.
    ///
    /// - Parameters:
    ///   - source: The root of the source, opened before a mount could cover it; nil to read no file in a source.
    ///   - mountpoint: The path at which the source is mounted.
    ///   - isInPlace: Whether the source is mounted over itself.
    ///   - system: The path of the administrator's file.
    ///   - userFile: The path of the user's file; nil if the user has none.
    ///   - user: The user that mounts.
    ///   - systemOwner: The user that the administrator's file must belong to.
    package init(
        in source: consuming OwnedDescriptor? = nil, mountedAt mountpoint: String = "",
        isInPlace: Bool = false,
        system: String = systemPath, userFile: String?, of user: UInt32, systemOwner: UInt32 = 0
    ) {
        if let source = consume source {
            root = SourceRoot(source)
        } else {
            root = nil
        }
        if root != nil {
            places.append(
                Place(
                    path: mountpoint + "/" + Self.nameInSource, pathInSource: Self.nameInSource,
                    owners: [0, user], scope: .source))
        }
        places.append(Place(path: system, owners: [systemOwner]))
        if let userFile { places.append(Place(path: userFile, owners: [0, user])) }
        // An in-place mount covers the files below its mount point. The daemon must not read them through its own mount.
        if isInPlace, root != nil {
            for index in places.indices where places[index].path.hasPrefix(mountpoint + "/") {
                places[index].pathInSource = String(places[index].path.dropFirst(mountpoint.count + 1))
            }
        }
        _ = refresh()
    }

    /// The rules in force.
    package var rules: Rules { Rules(sources: [Rules.shippedSource] + places.compactMap(\.source)) }

    /// Reads the files that have changed. If a changed file has a fault, the rules that it had before stay in force.
    ///
    /// The calling thread may have to wait for the file systems of the files.
    ///
    /// - Returns: A sentence for each file with other rules than before; none if all rules are as before.
    package mutating func refresh() -> [String] {
        places.indices.compactMap { refresh($0) }
    }

    /// Makes a watch that tells when ``refresh()`` possibly finds a change.
    package func watch() throws(Errno) -> FileWatch {
        let paths = places.map { $0.pathInSource ?? $0.path }
        guard let root else { return try FileWatch(of: paths, below: .openPath("/")) }
        return try FileWatch(of: paths, below: .duplicating(root.descriptor.rawValue))
    }

    private mutating func refresh(_ index: Int) -> String? {
        let (path, former) = (places[index].path, places[index].source)
        do throws(RuleProblem) {
            switch try read(places[index]) {
            case .unchanged: return nil
            case .missing: (places[index].source, places[index].stamp) = (nil, nil)
            case .contents(let bytes, let stamp):
                places[index].stamp = stamp.isFresh ? nil : stamp
                let file = try RuleFile(parsing: bytes, as: places[index].scope, from: path)
                places[index].source = Rules.Source(path: path, programs: file.programs, paths: file.paths)
            }
        } catch {
            places[index].source = Rules.Source(
                path: path, programs: former?.programs ?? [], paths: former?.paths ?? [], problem: error)
        }
        let present = places[index].source
        guard present != former else { return nil }
        guard let present else { return "\(path.printable) is gone, and its rules with it" }
        return present.problemText ?? "the rules of \(path.printable) are in force"
    }

    private func read(_ place: Place) throws(RuleProblem) -> TrustedFile.Finding {
        do throws(TrustedFile.Refusal) {
            guard let root, let path = place.pathInSource else {
                return try TrustedFile.read(
                    place.path, ownedBy: place.owners, atMost: RuleFile.longest, unless: place.stamp)
            }
            return try TrustedFile.read(
                path, in: root.descriptor.rawValue, ownedBy: place.owners, atMost: RuleFile.longest,
                unless: place.stamp)
        } catch {
            throw RuleProblem(error, limit: RuleFile.longest)
        }
    }
}
