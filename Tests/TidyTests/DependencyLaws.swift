// SPDX-License-Identifier: Apache-2.0

/// Which modules each room may import: the laws that keep the rooms apart.
///
/// - The pure rooms import pure rooms only: no clock, no thread, no Foundation.
/// - FuseBridge alone imports CFuse, LinuxSystem alone CLinux.
/// - Foundation is there for JSON and dates only, FoundationEssentials where that is enough: VersionStore writes its
///   log as JSON lines, and the command shows when something was kept.
/// - ConfigurationFiles alone reads TOML, and hands over values.
/// - FilesystemServer and ControlServer never import each other: they meet in the engine.
enum DependencyLaws {
    static let pureRooms: Set<String> = ["Coordination", "Arbitration"]

    static let imports: [String: Set<String>] = [
        "Coordination": [],
        "Arbitration": ["Coordination"],
        "ControlProtocol": ["Coordination", "FoundationEssentials"],
        "CLinux": [],
        "CFuse": [],
        "CArchive": [],
        "LinuxSystem": ["CLinux", "Glibc", "Synchronization"],
        "FuseBridge": ["CFuse", "LinuxSystem", "Glibc", "Synchronization"],
        "CoordinationEngine": ["Arbitration", "Coordination", "LinuxSystem", "Synchronization"],
        "VersionStore": ["Coordination", "LinuxSystem", "Synchronization", "FoundationEssentials"],
        "FilesystemServer": [
            "CoordinationEngine", "VersionStore", "FuseBridge", "LinuxSystem", "Coordination", "Glibc",
            "Synchronization",
        ],
        "ControlServer": [
            "CoordinationEngine", "ControlProtocol", "VersionStore", "Coordination", "LinuxSystem", "NIOCore",
            "NIOPosix", "Logging", "Synchronization",
        ],
        "ControlClient": ["LinuxSystem", "Glibc", "Synchronization"],
        "ConfigurationFiles": ["Coordination", "LinuxSystem", "TOMLKit", "Glibc"],
        "FileCoordination": [
            "CArchive", "ControlClient", "ControlProtocol", "Coordination", "LinuxSystem", "Foundation",
            "NIOCore", "NIOPosix", "Synchronization",
        ],
        "truce": [
            "ConfigurationFiles", "ControlClient", "ControlProtocol", "ControlServer",
            "FilesystemServer", "Coordination", "CoordinationEngine",
            "FuseBridge", "LinuxSystem", "VersionStore", "ArgumentParser", "FoundationEssentials", "Glibc",
            "Synchronization",
        ],
    ]

    /// Only what a room shows to programs outside the package is public; the words they share with it as well.
    static let publicRooms: Set<String> = ["FileCoordination", "Coordination", "Arbitration"]

    static func findings(in file: TextFile) -> [Finding] {
        let parts = file.path.split(separator: "/").map(String.init)
        guard parts.count > 2, parts[0] == "Sources" else { return [] }
        let room = parts[1]
        guard let allowed = imports[room] else {
            return [Finding(path: file.path, line: 1, what: "\(room) is no room of the design")]
        }
        return importFindings(in: file, room: room, allowed: allowed)
            + (pureRooms.contains(room) ? impurities(in: file) : [])
            + (publicRooms.contains(room) ? [] : publicWords(in: file))
    }

    private static func importFindings(in file: TextFile, room: String, allowed: Set<String>) -> [Finding] {
        // In prose, a line may begin with the word.
        guard file.language == .swift || file.language == .c else { return [] }
        // `package import struct Module.Name` imports from Module as `import Module` does.
        let pattern = /^\s*(?:@\w+\s+)*(?:\w+\s+)?import\s+(?:[a-z]+\s+(?=[A-Z]))?(\w+)/
        return zip(1..., file.codeLines).compactMap { number, line in
            guard let module = line.firstMatch(of: pattern)?.1, !allowed.contains(String(module)) else {
                return nil
            }
            return Finding(path: file.path, line: number, what: "\(room) may not import \(module)")
        } + includeFindings(in: file, room: room)
    }

    private static func includeFindings(in file: TextFile, room: String) -> [Finding] {
        guard file.language == .c, room != "CFuse" else { return [] }
        return file.findings(of: /#\s*include\s*[<"]fuse/, in: file.lines, "\(room) may not include libfuse")
    }

    private static func impurities(in file: TextFile) -> [Finding] {
        let words =
            /\b(ContinuousClock|SuspendingClock|SystemRandomNumberGenerator|Task|Thread|random|print)\b\s*[.(]/
        return file.findings(
            of: words, in: file.codeLines, "a pure room has no clock, chance, thread or output")
    }

    /// The compiler specialises and inlines in other modules what is public, and not what is `package`; what is here is in
    /// the way of every request.
    static let specialised: Set = [
        "Sources/FuseBridge/NodeID.swift", "Sources/FuseBridge/Parked.swift",
        "Sources/LinuxSystem/Files/FileName.swift",
    ]

    private static func publicWords(in file: TextFile) -> [Finding] {
        guard file.language == .swift, !specialised.contains(file.path) else { return [] }
        // A name may be `open`, too: what it opens a declaration with is followed by the rest of it.
        let declaration =
            #/
            ^\s* (@\w+\s+)* (public|open) (\(set\))? \s+ (\S+\s+)*
            (actor|associatedtype|case|class|enum|extension|func|import|init|let|protocol|struct|subscript
            |typealias|var)\b
            /#
        return file.findings(of: declaration, in: file.codeLines, "package access is enough")
    }
}
