// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing

/// A new directory that is removed at the end of the test.
struct Folder {
    let path: String

    static func with(_ body: (Folder) throws -> Void) throws {
        var template = Array("/tmp/truce-watch-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer {
            do { try FileManager.default.removeItem(atPath: path) } catch { print("left \(path): \(error)") }
        }
        try body(Folder(path: path))
    }

    subscript(name: String) -> String { path + "/" + name }

    func descriptor() throws -> OwnedDescriptor { try OwnedDescriptor.openDirectory(at: path) }

    /// Makes a file with the text. If the file exists, overwrites it.
    func write(_ name: String, _ text: String) throws {
        let file = open(self[name], O_WRONLY | O_CREAT, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        try #require(Glibc.write(file, text, text.utf8.count) == text.utf8.count)
    }
}
