// SPDX-License-Identifier: Apache-2.0

/// The parameters of `generation`: the path of the document that the client asks about.
package struct GenerationParameters: Hashable, Sendable, Codable {
    package var path: PathForm

    package init(path: [UInt8]) { self.path = PathForm(path) }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
    }
    package func encode(to encoder: any Encoder) throws { try path.encode(to: encoder) }
}

/// The generation that a document has now, and the program that made it.
package struct GenerationResult: Hashable, Sendable, Codable {
    /// The generation as text, to be compared as a whole.
    package var generation: String
    /// The program that wrote the document last; nil if the daemon does not know it.
    package var author: ProcessDescriptionForm?
    /// The time of that write in seconds since 1970; nil if it is not known.
    package var time: Double?

    package init(generation: String, author: ProcessDescriptionForm? = nil, time: Double? = nil) {
        self.generation = generation
        self.author = author
        self.time = time
    }
}

extension String {
    /// Throws if the text cannot be the generation of a document.
    func checkedGeneration() throws(ProtocolFailure) -> String {
        let isPlausible = utf8.allSatisfy { "0123456789abcdef.-t".utf8.contains($0) }
        guard let first = utf8.first, "et".utf8.contains(first), isPlausible,
            utf8.count <= ProtocolLimits.generationBytes
        else {
            throw .invalidParameters(
                "'\(excerpt)' is no generation; the request 'generation' and 'truce generation PATH' show one"
            )
        }
        return self
    }
}
