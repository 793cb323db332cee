// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem

/// The arguments that mount(8) passes to the helper of a file system: `SOURCE DIR [-sfnv] [-N namespace] [-o options] [-t
/// type]`.
package struct MountHelperArguments: Hashable, Sendable {
    package var source = ""
    package var directory = ""
    package var options: [String] = []
    /// Whether the option `-f` was given: check everything, but make no mount.
    package var isFake = false
    /// Whether the option `-s` was given: ignore unknown options.
    package var isSloppy = false
    package var isVerbose = false
    package var wantsHelp = false
    /// The value of the option `-N`, a mount namespace: a process ID, or the path of a file that stands for the
    /// namespace.
    package var namespace: String?

    package static let usage = "SOURCE DIR [-sfnvh] [-N namespace] [-o options] [-t fuse.truce]"

    package init(parsing arguments: [String]) throws(CommandFailure) {
        var rest = arguments[...]
        var paths: [String] = []
        while let argument = rest.popFirst() {
            if argument == "--" {
                paths += rest
                break
            }
            if argument.hasPrefix("-"), argument.count > 1 {
                try take(argument.dropFirst(), followedBy: &rest)
            } else {
                paths.append(argument)
            }
        }
        if wantsHelp { return }
        guard paths.count == 2 else {
            throw CommandFailure(.usage, "a source and a directory are needed: \(Self.usage)")
        }
        (source, directory) = (paths[0], paths[1])
    }

    /// Parses an argument with one or more flags. If the last flag needs a value, the value is the rest of this
    /// argument, or else the next argument.
    private mutating func take(
        _ word: Substring, followedBy rest: inout ArraySlice<String>
    ) throws(CommandFailure) {
        var letters = word
        while let letter = letters.popFirst() {
            switch letter {
            case "s": isSloppy = true
            case "f": isFake = true
            // The flag `-n` asks not to write `/etc/mtab`. It has no effect, because there is only the kernel's mount
            // table.
            case "n": break
            case "v": isVerbose = true
            case "h": wantsHelp = true
            case "N", "o", "t":
                guard let value = letters.isEmpty ? rest.popFirst() : String(letters) else {
                    throw CommandFailure(.usage, "option '-\(letter)' needs a value: \(Self.usage)")
                }
                return try take(letter, value)
            default: throw CommandFailure(.usage, "unknown option '-\(letter)': \(Self.usage)")
            }
        }
    }

    private mutating func take(_ letter: Character, _ value: String) throws(CommandFailure) {
        switch letter {
        case "N": namespace = value
        case "o": options.append(value)
        default:
            guard ["truce", "fuse.truce"].contains(value) else {
                throw CommandFailure(.usage, "type '\(value)' is not truce's: it must be 'fuse.truce'")
            }
        }
    }
}

/// The exit codes that mount(8) expects. Their values can be added, if several of them apply.
package enum MountHelperStatus: Int32, Sendable {
    case done = 0
    case wrongCall = 1
    case systemError = 2
    case internalError = 4
    case interrupted = 8
    case mountFailed = 32

    package init(of error: any Error) {
        switch error {
        case let failure as CommandFailure:
            self = failure.status == .usage || failure.status == .denied ? .wrongCall : .mountFailed
        case is Errno: self = .systemError
        default: self = .internalError
        }
    }
}
