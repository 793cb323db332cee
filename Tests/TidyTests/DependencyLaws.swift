// SPDX-License-Identifier: Apache-2.0

/// Finds each import of a system module by a room (a folder in Sources) that may not import it.
///
/// Package.swift lists which rooms a room may import, and the build in Scripts/test checks this list. Package.swift does not
/// list the modules of the system, so this check covers the system modules. The pure rooms import none of these modules: no
/// clock, no thread, no Foundation. Other rooms import Foundation for JSON and dates, or FoundationEssentials where that is
/// enough.
enum DependencyLaws {
    static let pureRooms: Set = ["Arbitration", "Coordination", "TextMerge"]

    private static let importers: [Substring: Set<String>] = [
        "Dispatch": [],
        "Foundation": ["FileCoordination"],
        "FoundationEssentials": ["ControlProtocol", "VersionStore", "truce"],
        "Glibc": [
            "ConfigurationFiles", "ControlClient", "FilesystemServer", "FuseBridge", "LinuxSystem", "truce",
        ],
    ]

    static func findings(in file: TextFile) -> [Finding] {
        guard file.isBelow("Sources"), file.language == .swift else { return [] }
        let room = String(file.path.split(separator: "/")[1])
        return zip(1..., file.lines).compactMap { number, line in
            guard let module = imported(by: line), !mayImport(room, module) else { return nil }
            return Finding(path: file.path, line: number, what: "\(room) may not import \(module)")
        }
    }

    private static func mayImport(_ room: String, _ module: Substring) -> Bool {
        pureRooms.contains(room)
            ? pureRooms.contains(String(module)) : importers[module]?.contains(room) ?? true
    }

    /// The module that a line imports. `package import struct Module.Name` imports from Module, as `import Module` does.
    private static func imported(by line: Substring) -> Substring? {
        guard line.has("import ") else { return nil }
        return line.firstMatch(of: /^\s*(?:@\w+\s+)*(?:\w+\s+)?import\s+(?:[a-z]+\s+(?=[A-Z]))?(\w+)/)?.1
    }
}
