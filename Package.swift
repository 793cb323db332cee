// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

/// Every Swift target is built under the same rules; a target that needs an exception says so in place.
let rules: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .treatWarning("DeprecatedDeclaration", as: .warning),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Whether another package uses this one, which then may not choose the compiler's flags.
let isDependency = Context.packageDirectory.contains("/.build/checkouts/")

/// Optimised even where the rest is not, but with its assertions: a million runs of small worlds in a minute.
let quick: [SwiftSetting] =
    isDependency ? [] : [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))]

func room(_ name: String, imports: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(name: name, dependencies: imports, exclude: exclude, swiftSettings: rules)
}

/// A room with no unsafe construct at all; the compiler holds it to that.
func pureRoom(_ name: String, imports: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: imports, swiftSettings: rules + quick + [.strictMemorySafety()])
}

func tests(
    _ name: String, of imports: [Target.Dependency], exclude: [String] = [], settings: [SwiftSetting] = []
) -> Target {
    .testTarget(name: name, dependencies: imports, exclude: exclude, swiftSettings: rules + settings)
}

/// A program as it would be written for Apple's Foundation, but for one import: what the library must compile.
func sample(_ name: String) -> Target {
    .executableTarget(
        name: name, dependencies: ["FileCoordination", "SampleRun"], path: "Tests/Samples/\(name)",
        swiftSettings: rules)
}

let package = Package(
    name: "truce",
    products: [
        .executable(name: "truce", targets: ["truce"]),
        .library(name: "FileCoordination", targets: ["FileCoordination"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
    ],
    targets: [
        // The pure middle: no I/O, no clock, no thread, no Foundation.
        pureRoom("Coordination"),
        pureRoom("Arbitration", imports: ["Coordination"]),
        pureRoom("TextMerge"),

        // The closed set of messages.
        room("ControlProtocol", imports: ["Coordination"]),

        // The edges of the operating system.
        .target(name: "CFuse", linkerSettings: [.linkedLibrary("fuse3")]),
        .target(name: "CLinux"),
        room("LinuxSystem", imports: ["CLinux"]),
        room("FuseBridge", imports: ["CFuse", "LinuxSystem"]),

        // The rules that are shipped, and the files that change them. What is shipped is part of the binary, which may be all there is.
        .target(
            name: "ConfigurationFiles",
            dependencies: ["Coordination", "LinuxSystem", .product(name: "TOMLKit", package: "TOMLKit")],
            resources: [.embedInCode("truce.toml")], swiftSettings: rules),

        // How clients find a mount, and its daemon.
        room("ControlClient", imports: ["LinuxSystem"]),

        // The middle, made concurrent; and the two doors into it, which never import each other.
        room("CoordinationEngine", imports: ["Arbitration", "Coordination", "LinuxSystem"]),
        room("VersionStore", imports: ["Coordination", "LinuxSystem"]),
        room("History", imports: ["LinuxSystem", "VersionStore"]),
        room(
            "FilesystemServer",
            imports: [
                "CoordinationEngine", "Coordination", "FuseBridge", "History", "LinuxSystem", "TextMerge",
                "VersionStore",
            ]),
        room(
            "ControlServer",
            imports: [
                "CoordinationEngine", "Coordination", "ControlProtocol", "LinuxSystem", "VersionStore",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),

        // The library that other programs import; it needs nothing of libfuse.
        .target(name: "CArchive", linkerSettings: [.linkedLibrary("archive")]),
        room(
            "FileCoordination",
            imports: [
                "CArchive", "ControlClient", "ControlProtocol", "Coordination", "LinuxSystem",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),

        // What people run.
        .executableTarget(
            name: "truce",
            dependencies: [
                "ConfigurationFiles", "ControlClient", "ControlProtocol", "ControlServer",
                "FilesystemServer", "Coordination",
                "CoordinationEngine", "FuseBridge", "History", "LinuxSystem", "VersionStore",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: rules),

        // Tests.
        tests("TidyTests", of: []),
        .target(name: "CTestSupport", path: "Tests/CTestSupport"),
        .target(
            name: "TestSupport", dependencies: ["CTestSupport"], path: "Tests/TestSupport",
            swiftSettings: rules),
        // The rules stated a second time, naively; it knows the words and nothing of the arbiter.
        .target(
            name: "NaiveArbitration", dependencies: ["Coordination"], path: "Tests/NaiveArbitration",
            swiftSettings: rules + quick),
        // Worlds in virtual time: the language of scenario files, and worlds played at random with checkers.
        .target(
            name: "ArbitrationSimulation", dependencies: ["Arbitration", "Coordination"],
            path: "Tests/ArbitrationSimulation", swiftSettings: rules + quick),
        .executableTarget(
            name: "simulate", dependencies: ["ArbitrationSimulation"], path: "Tests/Simulate",
            swiftSettings: rules),
        tests(
            "ArbitrationTests",
            of: ["Arbitration", "ArbitrationSimulation", "Coordination", "NaiveArbitration", "TestSupport"],
            exclude: ["Scenarios"], settings: quick),
        tests(
            "EngineTests",
            of: ["Arbitration", "CoordinationEngine", "Coordination", "LinuxSystem", "TestSupport"]),
        tests("LinuxSystemTests", of: ["CTestSupport", "LinuxSystem", "TestSupport"]),
        tests(
            "FilesystemServerTests",
            of: [
                "CFuse", "CTestSupport", "ConfigurationFiles", "FilesystemServer", "Coordination",
                "CoordinationEngine",
                "FuseBridge", "LinuxSystem", "VersionStore",
            ]),
        tests(
            "ConfigurationFileTests",
            of: ["ConfigurationFiles", "Coordination", "LinuxSystem"]),
        tests("TextMergeTests", of: ["TestSupport", "TextMerge"]),
        tests("VersionStoreTests", of: ["VersionStore", "Coordination", "LinuxSystem"]),
        tests("HistoryTests", of: ["History", "LinuxSystem", "VersionStore"]),
        .executableTarget(
            name: "ArbitrationBenchmark",
            dependencies: [
                "Arbitration", "CoordinationEngine", "Coordination", "CTestSupport", "LinuxSystem",
            ],
            path: "Tests/Benchmarks/ArbitrationBenchmark", swiftSettings: rules),
        // What Scripts/bench measures with; in C, so that the client's own share is small.
        .executableTarget(name: "FileBenchmark", path: "Tests/Benchmarks/FileBenchmark"),
        // A mirror without coordination, as the floor to measure Truce against.
        .executableTarget(name: "BareMirror", dependencies: ["CFuse"], path: "Tests/Benchmarks/BareMirror"),
        // Presenters, their reader and a bare hub in processes of their own.
        .executableTarget(
            name: "PresenterBenchmark",
            dependencies: ["ControlProtocol", "Coordination", "LinuxSystem"],
            path: "Tests/Benchmarks/PresenterBenchmark", swiftSettings: rules),
        .target(
            name: "SampleRun", dependencies: ["FileCoordination"], path: "Tests/Samples/SampleRun",
            swiftSettings: rules),
        sample("NotesEditor"), sample("FolderBrowser"), sample("SyncAgent"), sample("TwoPresenters"),
        sample("BatchCopier"), sample("VersionBrowser"),
        // A program that does with the library what it is told, and the scenarios in which several of them meet.
        .executableTarget(
            name: "Participant", dependencies: ["ControlClient", "FileCoordination"],
            path: "Tests/Participant", swiftSettings: rules),
        .target(
            name: "CoordinationScenarios", dependencies: ["TestSupport"], path: "Tests/CoordinationScenarios",
            swiftSettings: rules),
        // What competes for files in the mounted tests; in C, since a million look-ups have to be quick.
        .executableTarget(name: "TestWorker", path: "Tests/TestWorker"),
        // Random operations on few names by processes that race, and which errnos they may give; in C, as it is made of
        // system calls, and Scripts/conformance compiles it by itself.
        .executableTarget(name: "NameRace", path: "Tests/Workers/name-race"),
        // What kills the daemon at one of its system calls; in C, since it traces the daemon.
        .executableTarget(name: "CallKiller", path: "Tests/CallKiller"),
        // Processes that read and write one file at the same time, and know what each must read.
        .executableTarget(name: "DataWorker", path: "Tests/DataWorker"),
        // The client of the mounted tests that is written in Swift; see the others beside it.
        .executableTarget(
            name: "SwiftClient", dependencies: ["CTestSupport"], path: "Tests/Workers/clients/swift",
            swiftSettings: rules),
        tests("MountedTests", of: ["CoordinationScenarios", "TestSupport"]),
        tests("ControlProtocolTests", of: ["ControlProtocol", "Coordination", "TestSupport"]),
        tests(
            "CommandTests",
            of: [
                "truce", "ControlClient", "ControlProtocol", "ControlServer", "CoordinationEngine",
                "Coordination", "History",
                "LinuxSystem", "VersionStore", "CoordinationScenarios", "CTestSupport", "TestSupport",
            ]),
    ],
    swiftLanguageModes: [.v6]
)
