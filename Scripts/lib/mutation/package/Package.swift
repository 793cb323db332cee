// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

// Scripts/mutate builds this package: the arbiter with the code of all mutants, and the targets that its tests need. Mutants
// cause warnings about code that is never executed. So in this package, a warning is not an error.
let rules: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .unsafeFlags(["-suppress-warnings"]),
]

let package = Package(
    name: "truce",
    targets: [
        .target(name: "CMutant"),
        .target(name: "Coordination", swiftSettings: rules),
        .target(name: "Arbitration", dependencies: ["Coordination", "CMutant"], swiftSettings: rules),
        .target(name: "CTestSupport", path: "Tests/CTestSupport"),
        .target(
            name: "TestSupport", dependencies: ["CTestSupport"], path: "Tests/TestSupport",
            swiftSettings: rules),
        .target(
            name: "NaiveArbitration", dependencies: ["Coordination"], path: "Tests/NaiveArbitration",
            swiftSettings: rules),
        .target(
            name: "ArbitrationSimulation", dependencies: ["Arbitration", "Coordination"],
            path: "Tests/ArbitrationSimulation", swiftSettings: rules),
        .testTarget(
            name: "ArbitrationTests",
            dependencies: [
                "Arbitration", "ArbitrationSimulation", "Coordination", "NaiveArbitration", "TestSupport",
            ],
            exclude: ["Scenarios"], swiftSettings: rules),
    ],
    swiftLanguageModes: [.v6]
)
