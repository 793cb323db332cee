// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Prints a line with a single write, so that lines from several threads do not mix.
func printLine(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// The directory of the scene's files, and the short names of the items in it.
struct ParticipantDirectory: Sendable {
    let root: URL

    func url(_ name: String) -> URL {
        guard !name.contains("://") else { return URL(string: name) ?? root }
        return name.hasPrefix("/") ? URL(fileURLWithPath: name) : root.appendingPathComponent(name)
    }

    /// Returns the short name of an item, without a slash at the end. An item outside the directory has its whole path as its
    /// name.
    func name(_ url: URL) -> String {
        let path = url.path
        if path == root.path { return "." }
        return path.hasPrefix(root.path + "/") ? String(path.dropFirst(root.path.count + 1)) : path
    }
}

/// Returns the error of an access as text on one line.
func shown(_ error: any Error) -> String {
    if let known = error as? FileCoordinationError ?? FileCoordinationError(error as NSError) {
        let holders = known.holders.map { "\($0.program)(\($0.processIdentifier))" }
        return ["\(known.code):", known.message, "[\(holders.joined(separator: ","))]"].joined(separator: " ")
    }
    if (error as? CocoaError)?.code == .userCancelled { return "cancelled" }
    let plain = error as NSError
    if plain.domain == NSCocoaErrorDomain, plain.code == CocoaError.userCancelled.rawValue {
        return "cancelled"
    }
    return "\(plain.domain) \(plain.code): \(plain.localizedDescription)"
}

/// The error that an accessor or presenter of this program throws.
struct ParticipantError: Error, CustomNSError {
    static var errorDomain: String { "Participant" }
    let words: String
    var errorCode: Int { 7 }
    var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: words] }
}

func milliseconds(since moment: ContinuousClock.Instant) -> Int64 {
    let (seconds, attoseconds) = moment.duration(to: .now).components
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
}
