// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

// Scripts/fuzz builds this package: the targets that read messages of clients, and two programs for libFuzzer. This is a
// package of its own, because all of it is compiled with probes for libFuzzer.
let rules: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

func room(_ name: String, imports: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: imports, swiftSettings: rules)
}

/// Returns the target of a fuzzing program. Scripts/fuzz puts links to its sources into a directory with its name. Tests of the
/// ordinary build check the same code with the corpus.
func fuzzer(_ name: String, imports: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: imports, path: name, swiftSettings: rules)
}

let package = Package(
    name: "truce",
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0")
    ],
    targets: [
        room("Coordination"),
        room("Arbitration", imports: ["Coordination"]),
        room("ControlProtocol", imports: ["Coordination"]),
        .target(name: "CLinux"),
        room("LinuxSystem", imports: ["CLinux"]),
        room("CoordinationEngine", imports: ["Arbitration", "Coordination", "LinuxSystem"]),
        room("VersionStore", imports: ["Coordination", "LinuxSystem"]),
        room(
            "ControlServer",
            imports: [
                "CoordinationEngine", "Coordination", "ControlProtocol", "LinuxSystem", "VersionStore",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        fuzzer("decoder", imports: ["ControlProtocol", "Coordination"]),
        fuzzer(
            "messages",
            imports: [
                "ControlProtocol", "ControlServer", "Coordination", "CoordinationEngine", "LinuxSystem",
            ]),
    ],
    swiftLanguageModes: [.v6]
)
