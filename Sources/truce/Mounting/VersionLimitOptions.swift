// SPDX-License-Identifier: Apache-2.0
import Coordination
import VersionStore

/// The options of a mount that limit the store.
extension StoreLimits {
    static let optionNames = ["keep-room", "keep-share", "keep-age", "keep-certain", "keep-versions"]

    /// The limits as words for the option `-o`.
    var words: [String] {
        [
            "keep-room=\(room)", "keep-share=\(share)%", "keep-age=\(age.milliseconds)ms",
            "keep-certain=\(certain.milliseconds)ms", "keep-versions=\(versions)",
        ]
    }

    /// Sets the limit with this name. If `value` is wrong, throws an error with the values that are allowed.
    mutating func apply(_ name: String, _ value: String) throws(WrongValue) {
        switch name {
        case "keep-room": room = try Self.bytes(value)
        case "keep-share": share = try Self.share(value)
        case "keep-age": age = try Self.time(value, name)
        case "keep-certain": certain = try Self.time(value, name)
        case "keep-versions":
            guard let number = Int(value), number > 0, value.utf8.first != UInt8(ascii: "+") else {
                throw WrongValue(wanted: "a number from 1 on, for example keep-versions=100")
            }
            versions = number
        default: preconditionFailure("\(name) is none of these options")
        }
    }

    struct WrongValue: Error {
        let wanted: String
    }

    private static func bytes(_ text: String) throws(WrongValue) -> Int {
        let units: [String: Int] = ["": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40]
        let (digits, rest) = parts(text)
        guard let unit = units[rest], let number = Int(digits), number <= (1 << 60) / unit else {
            throw WrongValue(wanted: "a number of bytes, for example keep-room=1G or keep-room=500M")
        }
        return number * unit
    }

    private static func share(_ text: String) throws(WrongValue) -> Int {
        let (digits, rest) = parts(text)
        guard rest.isEmpty || rest == "%", let number = Int(digits), (0...100).contains(number) else {
            throw WrongValue(wanted: "a share of the disk, for example keep-share=10%")
        }
        return number
    }

    private static func time(_ text: String, _ name: String) throws(WrongValue) -> TimeSpan {
        guard let span = TimeSpan(parsingLong: text) else {
            throw WrongValue(wanted: "a time, for example \(name)=30d or \(name)=12h")
        }
        return span
    }

    private static func parts(_ text: String) -> (digits: String, rest: String) {
        let digits = text.prefix { ("0"..."9").contains($0) }
        return (String(digits), String(text[digits.endIndex...]))
    }
}
