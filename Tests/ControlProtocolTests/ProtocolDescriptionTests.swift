// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation
import Testing

/// Issue 5, "The protocol": a schema and a prose reference, both checked against the code.
struct ProtocolDescriptionTests {
    @Test("code, schema and prose agree")
    func codeSchemaAndProseAgree() throws {
        for difference in try ProtocolDescription().differences { Issue.record("\(difference)") }
    }

    @Test("each has parts to compare", arguments: ProtocolDescription.Topic.allCases)
    func everyTopicHasEntries(topic: ProtocolDescription.Topic) throws {
        let description = try ProtocolDescription()
        let known = ProtocolDescription.known(topic).sorted()
        #expect(known.count >= 2)
        #expect(description.named(topic).sorted() == known)
        #expect(description.told(topic).sorted() == known)
    }

    @Test("the server's capabilities are methods")
    func capabilities() {
        let mount = MountForm(mountpoint: "/m", source: "/s", user: 1)
        let result = InitializeResult(version: "1", pid: 1, mount: mount)
        let known = ProtocolDescription.known(.requests) + ProtocolDescription.known(.notifications)
        #expect(Set(result.capabilities).isSubset(of: known))
    }

    /// A sentence of the prose, its replacement, and the finding.
    static let plantedInProse: [(String, String, String)] = [
        ("| `ps` |", "| `pst` |", "ps"), ("\n| `ps` |", "\n| `ps` | – | |\n| `purge` |", "purge"),
        ("| `presenter/progress` |", "| `presenter/working` |", "presenter/progress"),
        ("| `presenter/save` |", "| `presenter/keep` |", "presenter/keep"),
        ("| `presenter/reacquire` |", "| `presenter/resume` |", "presenter/reacquire"),
        ("`events/event` has", "`events/tell` has", "events/event"),
        ("| `moved` |", "| `renamed` |", "moved"), ("| -32004 |", "| -32044 |", "-32004"),
        ("`forMerging`, `contentIndependentMetadataOnly`", "`forMerging`", "contentIndependentMetadataOnly"),
        ("`reacquire`, `didChange`", "`didChange`", "reacquire"),
        ("list of `withoutChanges`", "list of `withoutAsking`", "withoutAsking"),
        ("| `presenter/remove` | `presenter` |", "| `presenter/remove` | `number` |", "number"),
        ("`subscription`, `epoch`, `sequence`, `hasGap`", "`subscription`, `hasLoss`", "hasLoss"),
        ("`onBehalfOf`", "`insteadOf`", "onBehalfOf"),
        ("nests at most 64", "nests at most 65", "65"), ("16 subscriptions", "61 subscriptions", "61"),
        ("A path has at most", "There are 7 more. A path has at most", "7"),
        ("4096 events are", "4095 events are", "4096"),
    ]

    @Test("a difference in the prose is found", arguments: plantedInProse)
    func findsPlantedProseDifference(text: String, other: String, found: String) throws {
        var description = try ProtocolDescription()
        #expect(description.prose.contains(text))
        description.prose = description.prose.replacing(text, with: other)
        #expect(description.differences.contains { $0.contains(found) })
    }

    /// A place in the schema, its replacement, and the finding.
    static let plantedInSchema: [([String], JSONValue?, String)] = [
        (["ps", "properties", "method", "const"], .text("pst"), "pst is in the schema alone"),
        (["status", "properties", "method", "const"], .text("ps"), "status is missing"),
        (["presenterSave", "properties", "method"], nil, "presenter/save is missing"),
        (["clientNotification", "anyOf"], .list([]), "presenter/progress is missing"),
        (["serverNotification"], nil, "serverNotification"),
        (["access", "enum"], .list([.text("read"), .text("write")]), "write is in the schema alone"),
        (["eventKind", "enum"], .list([]), "moved is missing in the schema"),
        (["errorCode", "anyOf"], .list([.object(["const": .number(1)])]), "1 is in the schema alone"),
        (["presenterMessage", "enum"], .list([]), "didMove is missing"),
        (["readingOption", "enum"], .list([]), "forUploading is missing"),
        (["purpose", "maxLength"], .number(255), "purpose.maxLength is 255"),
        (["purpose", "maxLength"], nil, "purpose.maxLength is missing"),
        (["epoch"], .object(["type": .text("string")]), "nothing needs 'epoch'"),
        (["census"], nil, "there is no 'census'"),
        (["purpose", "maxlength"], .number(1), "'maxlength' means nothing"),
        (["cause", "properties", "terminal"], .object([:]), "does not tell of 'terminal'"),
        (["accessEndParams", "properties", "access"], nil, "access/end has no 'access'"),
    ]

    @Test("a difference in the schema is found", arguments: plantedInSchema)
    func findsPlantedSchemaDifference(place: [String], value: JSONValue?, found: String) throws {
        var description = try ProtocolDescription()
        let steps = JSONValue.Place((["$defs"] + place).map { .member($0) })
        description.schema = description.schema.with(value, at: steps)
        #expect(description.differences.contains { $0.contains(found) })
    }
}
