// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

// Built by Scripts/fuzz: the targets that read clients' messages, and two programs that make up input for them. It is a package
// of its own because the whole of it is compiled with probes for libFuzzer.
let rules: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

func room(_ name: String, imports: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: imports, swiftSettings: rules)
}

/// The script puts links to the sources of each into a directory of that name. Tests of the normal build check the same code
/// with the corpus.
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
