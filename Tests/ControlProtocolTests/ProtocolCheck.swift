// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation
import TestSupport

/// A message that the code encodes, and that `protocol-check` compares with the schema.
struct SchemaSample {
    /// The definition of the schema for this message: `clientMessage`, `serverMessage` or `reply`.
    let kind: String
    let message: [UInt8]
    /// If the message is a reply: the method of its request.
    var resultOf: String?
    /// The member of the message inside which the check damages the message. If nil, the check damages the message anywhere.
    var below: String?
    /// True if the code may accept a message although the schema requires a missing member.
    var toleratesRemoval = false
    let isRead: ([UInt8]) -> Bool
}

/// Runs the program `protocol-check`, which compares code, schema and prose of the protocol.
struct ProtocolCheck {
    private struct Report: Decodable {
        struct SpoiltForm: Decodable {
            let sample: Int
            let place: String
            let message: String
            let isRemoval: Bool
            let isValid: Bool
        }
        let differences: [String]
        let spoilt: [SpoiltForm]
        let verdicts: [Bool]
    }

    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

    /// Changes that a test plants in the schema: a place in its definitions, and the new value in JSON. If the value is nil,
    /// the check removes the old value.
    var plantedInSchema: [(place: [String], value: String?)] = []
    var plantedInProse: [(old: String, new: String)] = []

    /// The differences between code, schema and prose. For damaged samples, also the cases where code and schema disagree.
    func differences(on samples: [SchemaSample] = []) throws -> [String] {
        let report = try run(samples: samples)
        return report.differences
            + report.spoilt.compactMap { form in
                let sample = samples[form.sample]
                let isRead = sample.isRead(Array(form.message.utf8))
                let isTolerated = sample.toleratesRemoval && form.isRemoval && isRead
                guard isRead != form.isValid, !isTolerated else { return nil }
                return form.place + (isRead ? ": the code takes it" : ": the code refuses it")
            }
            + samples.filter { !$0.isRead($0.message) }.map {
                "\($0.kind): the code does not read what it writes"
            }
    }

    /// Returns, for each text, true if the schema allows the text as a message of the given definition.
    func verdicts(on texts: [(definition: String, text: String)]) throws -> [Bool] {
        try run(texts: texts).verdicts
    }

    private func run(
        samples: [SchemaSample] = [], texts: [(definition: String, text: String)] = []
    ) throws -> Report {
        let order: [String: Any] = [
            "catalog": Self.root + "/Sources/ControlProtocol/ControlProtocol.docc",
            "code": [
                "names": ProtocolNames.names,
                "bounds": ProtocolNames.bounds.mapValues { NSDecimalNumber(decimal: $0) },
                "limits": ProtocolNames.limits, "limitsElsewhere": ProtocolNames.limitsElsewhere,
            ] as [String: Any],
            "schema": try plantedInSchema.map {
                [$0.place, try Self.value($0.value), $0.value == nil] as [Any]
            },
            "prose": plantedInProse.map { [$0.old, $0.new] },
            "samples": try samples.map { sample in
                var form: [String: Any] = [
                    "message kind": sample.kind,
                    "message": try JSONSerialization.jsonObject(with: Data(sample.message)),
                ]
                form["result"] = sample.resultOf
                form["below"] = sample.below
                return form
            },
            "texts": texts.map { [$0.definition, $0.text] },
        ]
        let text = String(decoding: try JSONSerialization.data(withJSONObject: order), as: UTF8.self)
        let checker = Self.root + "/Tests/Workers/protocol-check"
        let result = try Program("/usr/bin/python3").run(checker, input: .text(text), within: .seconds(300))
        return try JSONDecoder().decode(Report.self, from: Data(result.output))
    }

    private static func value(_ text: String?) throws -> Any {
        guard let text else { return NSNull() }
        return try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
    }
}
