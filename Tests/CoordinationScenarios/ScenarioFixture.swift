// SPDX-License-Identifier: Apache-2.0
import Foundation
package import TestSupport

/// The directory in which a scene takes place, and the daemon's list of claims and presenters.
package final class ScenarioFixture {
    /// Creates the files and directories that exist at the start of each scene.
    package static func prepare(_ directory: String) throws {
        try Script(
            """
            cd "$1"
            mkdir -p d/deep other k.rtfd/in.rtfd
            for file in f f1 f2 d/x d/y d/deep/y k.rtfd/a k.rtfd/b k.rtfd/in.rtfd/a; do printf old >"$file"; done
            ln -s f l
            """
        ).run(directory)
    }

    /// The path of the directory; with a mount, as the mount shows it.
    package let root: String
    /// A directory outside the mount.
    package let outside: String
    /// The mount of the directory; nil if the scene runs without a mount.
    package let mount: MountedDirectory?
    private let socket: String?
    private let fetchStatus: () throws -> StatusSnapshot
    private var players: [ScenarioParticipant] = []

    package init(on mount: MountedDirectory, outside: String) {
        (root, self.outside, self.mount, socket) = (mount.path, outside, mount, nil)
        fetchStatus = {
            struct Listing: Decodable { var mounts: [StatusSnapshot] }
            let json = try TruceCommand.run("ps", "--json", mount.path).output
            return try JSONDecoder().decode(Listing.self, from: Data(json)).mounts[0]
        }
    }

    /// Creates the fixture in a plain directory without a mount, with a server in place of the daemon.
    ///
    /// `fetchStatus` returns the claims and presenters of that server.
    package init(
        at root: String, servedBy socket: String, outside: String, fetchStatus: @escaping () throws -> [UInt8]
    ) {
        (self.root, self.outside, mount, self.socket) = (root, outside, nil, socket)
        self.fetchStatus = { try JSONDecoder().decode(StatusSnapshot.self, from: Data(try fetchStatus())) }
    }

    package func player(_ name: String) throws -> ScenarioParticipant {
        let program = try BuiltProgram.start(
            "Participant", arguments: [root] + (socket.map { [$0] } ?? []), input: .keyboard)
        let player = ScenarioParticipant(name, program) { [unowned self] in situation }
        players.append(player)
        return player
    }

    package func players(_ names: String...) throws -> [ScenarioParticipant] { try names.map(player) }

    /// Ends all participants that still run, and waits for their end.
    package func clear() throws {
        for player in players { player.program.endInput() }
        for player in players { _ = try player.program.wait(within: .seconds(10)) }
        players = []
    }

    /// Returns the text of a file from the source directory, without going through the mount.
    package func text(_ path: String) throws -> String {
        try FileContents.text(of: "\(mount?.below ?? root)/\(path)")
    }
}

// Waits and checks that read the daemon's list of claims and presenters.
extension ScenarioFixture {
    package struct StatusSnapshot: Decodable {
        struct ProcessListing: Decodable {
            var pid: Int32
            var program: String
        }
        struct ClaimListing: Decodable {
            var actor: ProcessListing
            var path: String
            var state: String
            var reasons: [String]
        }
        struct AnswerListing: Decodable {
            var request: String
            var age: Int
            var left: Int
        }
        struct PresenterListing: Decodable {
            var actor: ProcessListing
            var path: String
            var owed: [AnswerListing]
            var isUnsaved: Bool
        }
        var claims: [ClaimListing]
        var presenters: [PresenterListing]
    }

    /// The daemon's current claims and presenters, as text for the message of a failed scene.
    private var situation: String {
        do { return "\(try fetchStatus())" } catch { return "\(error)" }
    }

    private func wait(for what: String, _ condition: (StatusSnapshot) -> Bool) throws {
        try eventually(within: ScenarioParticipant.patience, "\(what)\n\(situation)") {
            condition(try fetchStatus())
        }
    }

    /// Waits until an access of a program waits for a file, and checks that the access's accessor has not begun.
    ///
    /// If `reason` is given, it must be part of one of the reasons that the daemon reports for the wait.
    package func waits(
        _ player: ScenarioParticipant, for path: String, _ access: String, because reason: String = ""
    ) throws {
        try wait(for: "\(player.name) to wait for \(path)") { census in
            census.claims.contains { claim in
                claim.actor.pid == player.pid && claim.state == "waiting" && claim.path == path
                    && (reason.isEmpty || claim.reasons.contains { $0.contains(reason) })
            }
        }
        let unread = player.unread(access)
        guard unread.isEmpty else { throw TestFailure("\(player.name) waits and said: \(unread)") }
    }

    /// Waits until a presenter has had an unanswered question for the given time. Returns the milliseconds that are left for
    /// the answer.
    @discardableResult
    package func owes(_ player: ScenarioParticipant, _ request: String, since milliseconds: Int = 0) throws
        -> Int
    {
        var left = 0
        try wait(for: "\(player.name) to owe \(request) for \(milliseconds) ms") { census in
            let owed = census.presenters.filter { $0.actor.pid == player.pid }.flatMap(\.owed).first {
                $0.request == request && $0.age >= milliseconds
            }
            left = owed?.left ?? 0
            return owed != nil
        }
        return left
    }

    /// Waits until `count` presenters of the program have unsaved changes, according to the daemon.
    package func hasUnsaved(_ player: ScenarioParticipant, _ count: Int) throws {
        try wait(for: "unsaved changes of \(count) presenters of \(player.name)") { census in
            census.presenters.filter { $0.actor.pid == player.pid && $0.isUnsaved }.count == count
        }
    }

    /// Waits until exactly `count` presenters of the program are registered.
    package func presents(_ player: ScenarioParticipant, _ count: Int) throws {
        try wait(for: "\(count) presenters of \(player.name)") { census in
            census.presenters.filter { $0.actor.pid == player.pid }.count == count
        }
    }

    /// Waits until all participants have handled all messages that were already sent. Then checks that these presenters
    /// received no message that the scene has not expected.
    package func silence(_ player: ScenarioParticipant, _ presenters: String...) throws {
        for other in players where other !== player && !other.program.hasEnded {
            try other.say("settle here")
            try other.expect("here", "settled")
        }
        for presenter in presenters {
            try player.say("settle \(presenter)")
            try player.expect(presenter, "settled")
        }
    }
}
