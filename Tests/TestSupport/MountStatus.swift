// SPDX-License-Identifier: Apache-2.0
import Foundation
package import Testing

/// The output of `truce status --json`.
///
/// The test declares its own types and does not use the product's types. The names in the output are an interface for scripts.
/// If the product changes a name, the test must fail.
package struct MountStatus: Decodable, Sendable {
    package struct Counters: Decodable, Sendable {
        package var granted: UInt64
        package var waited: UInt64
        package var asked: UInt64
        package var forfeited: UInt64
        package var proceeded: UInt64
        package var yielded: UInt64
        package var suspended: UInt64
        package var bounced: UInt64
        package var parkedUnderLock: UInt64
        package var estale: UInt64
        package var interrupted: UInt64
        package var identified: UInt64
        package var kept: UInt64
        package var suspected: UInt64
        package var unseen: UInt64
        package var harmless: UInt64
        package var merged: UInt64
        package var read: UInt64
        package var write: UInt64
        package var listed: UInt64

        /// The counters that are not 0, as text among the figures that a test prints.
        package var summary: String {
            let named: [(String, UInt64)] = [
                ("granted", granted), ("waited", waited), ("asked", asked), ("forfeited", forfeited),
                ("proceeded", proceeded), ("yielded", yielded), ("suspended", suspended),
                ("bounced", bounced),
                ("parked under lock", parkedUnderLock), ("ESTALE", estale), ("interrupted", interrupted),
                ("identified", identified),
                ("kept", kept), ("suspected", suspected), ("unseen", unseen), ("harmless", harmless),
                ("merged", merged),
                ("READ", read), ("WRITE", write), ("listed", listed),
            ]
            return named.filter { $0.1 != 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
        }
    }

    /// The numbers of resources that the daemon uses now.
    package struct ResourceUse: Decodable, Sendable {
        package var claims: Int
        package var openFiles: Int
        package var routes: Int
        package var backingFiles: Int
        package var descriptors: Int
    }

    package struct Options: Decodable, Sendable {
        package var dataPath: String
        package var wait: UInt64
        package var hold: UInt64
        package var idle: UInt64
        package var policy: String
    }

    package struct ProcessEntry: Decodable, Sendable {
        package var pid: Int32
        package var program: String
    }

    package struct WaitingEntry: Decodable, Sendable {
        package var path: String
        package var actor: ProcessEntry
    }

    package struct Step: Decodable, Sendable {
        package var sequence: UInt64
        package var milliseconds: UInt64
        package var step: String
        package var claim: UInt64?
        package var actor: ProcessEntry?
        package var path: String
        package var detail: String
    }

    package var pid: Int32
    package var options: Options
    package var counters: Counters
    package var use: ResourceUse
    package var waiting: [WaitingEntry]
    package var journal: [Step]

    package init(json: [UInt8]) throws {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw TestFailure(
                "truce status --json: \(error)\n\(String(decoding: json.prefix(2000), as: UTF8.self))")
        }
    }

    /// Returns the claims for which the daemon's journal contains a step of this kind.
    package func claims(that step: String) -> Set<UInt64> {
        Set(journal.filter { $0.step == step }.compactMap(\.claim))
    }

    /// Returns the last 60 lines of the journal, for the message of a failed check; with `step`, up to the first step of this
    /// kind.
    package func journalText(upTo step: String? = nil) -> String {
        let end = journal.firstIndex { $0.step == step } ?? journal.count - 1
        return journal.prefix(end + 1).suffix(60).map { step in
            let actor = step.actor.map { "\($0.program)[\($0.pid)]" } ?? "-"
            let claim = step.claim.map { "#\($0)" } ?? "-"
            return
                "\(step.sequence) \(step.milliseconds) \(step.step) \(claim) \(actor) \(step.path) \(step.detail)"
        }.joined(separator: "\n")
    }
}

/// The steps by which Truce lets a claim go ahead although a holder has not ended or a presenter has not answered.
package enum ForcedStep: Sendable, CaseIterable { case proceeded, suspended, forfeited }

/// Called at the end of every mounted test. Checks that no forced step has happened, except the steps that the test provokes.
///
/// A holder that has nothing to lose and lets other claims go ahead has *yielded*. To yield is no forced step.
package func checkForcedSteps(
    _ status: MountStatus, except subject: Set<ForcedStep> = [],
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let counters = status.counters
    let forced: [(ForcedStep, UInt64)] = [
        (.proceeded, counters.proceeded), (.suspended, counters.suspended), (.forfeited, counters.forfeited),
    ]
    for (step, count) in forced where !subject.contains(step) {
        #expect(
            count == 0, "\(count) were \(step)\n\(status.journalText(upTo: "\(step)"))",
            sourceLocation: sourceLocation)
    }
}
