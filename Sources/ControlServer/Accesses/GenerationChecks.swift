// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import CoordinationEngine
import LinuxSystem

/// Compare-and-swap: a write that is granted only if its document still has the generation that the client has read (D251).
extension SharedServices {
    /// Returns the generation of the document at a path. This can block.
    func generation(at path: PathForm) throws(ProtocolFailure) -> GenerationResult {
        let document = try documents.find(path)
        defer { document.release() }
        let generation: DocumentGeneration?
        do throws(LookupFailure) {
            generation = try documents.generation(of: document)
        } catch {
            throw ProtocolFailure(error, path)
        }
        guard let generation else {
            let name = path.path.excerpt
            throw .notFound(
                name.isEmpty
                    ? "the root of the mount is a directory, and only files have a generation"
                    : "there is no file at '\(name)'")
        }
        return GenerationResult(generation)
    }

    /// Throws unless a document still has the generation `expected`. This can block.
    func check(
        _ document: any TrackedDocument, is expected: String, _ path: PathForm, for peer: Peer
    ) throws(ProtocolFailure) {
        let comparison: GenerationComparison
        do throws(LookupFailure) {
            comparison = try documents.compare(document, with: expected)
        } catch {
            throw ProtocolFailure(error, path)
        }
        let name = path.path.excerpt
        switch comparison {
        case .same: return
        case .changed(let now):
            throw .changed(
                "\(name) changed since generation \(expected): \(now.authorship)it is \(now.text) now. "
                    + difference(of: path, from: expected, for: peer),
                suggestion: Self.advice, expected: expected, now: GenerationResult(now))
        case .missing:
            throw .changed(
                "there is no file '\(name)' any more; its generation was \(expected).",
                suggestion: "find out which program has moved or deleted it", expected: expected, now: nil)
        case .unknown(let now):
            throw notKnown(path, expected, "the daemon ended without saving it", now, for: peer)
        case .forgotten(let now):
            throw notKnown(
                path, expected, "the daemon has dropped it, or the file was replaced around the mount", now,
                for: peer)
        }
    }

    private func notKnown(
        _ path: PathForm, _ expected: String, _ reason: String, _ now: DocumentGeneration, for peer: Peer
    ) -> ProtocolFailure {
        let name = path.path.excerpt
        return .changed(
            "The generation \(expected) of \(name) is not known any more, because \(reason); \(name) is \(now.text) now. "
                + difference(of: path, from: expected, for: peer),
            suggestion: Self.advice, expected: expected, now: GenerationResult(now))
    }

    private static let advice = "read the document again, and repeat the write with its present generation"

    /// A sentence with the command that shows how a document differs from an earlier generation.
    ///
    /// If no version has the contents of this generation, the command shows the difference to the latest version.
    private func difference(of path: PathForm, from generation: String, for peer: Peer) -> String {
        let name = path.path.excerpt
        let file = name.isEmpty ? mount.mountpoint : "\(mount.mountpoint)/\(name)"
        let command = "truce versions \(Self.shellQuoted(file))"
        let entries: [VersionForm]
        do throws(VersionAccessFailure) {
            entries =
                try preservedVersions?.entries(VersionQuery(path: path.bytes ?? []), for: peer).entries ?? []
        } catch {
            // The client may not see the versions. It can still read the file again.
            entries = []
        }
        if let version = entries.first(where: { $0.generation == generation }) {
            return "`\(command) diff \(version.id)` shows the difference."
        }
        guard !entries.isEmpty else {
            return "No version of the former contents is preserved; read it again."
        }
        return "`\(command) diff` shows the difference to its latest version."
    }

    /// Returns a path so that a shell reads it as one word.
    private static func shellQuoted(_ path: String) -> String {
        let plain = path.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "/._-+@%".utf8.contains(byte)
        }
        if plain { return path }
        return "'" + path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
            + "'"
    }
}

extension DocumentGeneration {
    /// Which program made the generation and when, as a part of a sentence for users.
    fileprivate var authorship: String {
        let moment = time.map { " at \(WallClock.timeOfDay(atNanoseconds: $0))" } ?? ""
        guard let author else { return time == nil ? "" : "it was written\(moment); " }
        let program = String(decoding: author.program, as: UTF8.self).excerpt
        let name = program.isEmpty ? "a program" : program
        return (author.pid == 0 ? name : "\(name) (pid \(author.pid))") + " wrote it\(moment); "
    }
}

extension GenerationResult {
    fileprivate init(_ generation: DocumentGeneration) {
        self.init(
            generation: generation.text, author: generation.author.map { ProcessDescriptionForm($0) },
            time: generation.time.map { Double($0) / 1e9 })
    }
}
