// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

// Scripts/fuzz builds this package. It contains the targets that read messages of clients, and two programs for libFuzzer. It
// is separate from the main package, because all its code is compiled with probes for libFuzzer.
let rules: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

func room(_ name: String, imports: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: imports, swiftSettings: rules)
}

/// Returns the target of a fuzzing program. Scripts/fuzz puts links to the program's sources into a directory with the name of
/// the target. The tests in the main package check the same code with the corpus.
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
