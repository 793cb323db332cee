// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

/// The source directory of one test. The directory is removed after the test.
final class Sandbox: Sendable {
    let path: String
    private let sentences = Mutex<[String]>([])

    init() throws {
        var template = Array("\(NSTemporaryDirectory())truce-store-XXXXXX".utf8CString)
        let made = try #require(mkdtemp(&template))
        path = String(cString: made)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { print("left \(path): \(error)") }
    }

    /// The lines that the store has logged.
    var log: [String] { sentences.withLock { $0 } }

    func root() throws -> OwnedDescriptor { try OwnedDescriptor.openPath(path) }

    func store(
        largestCopy: Int = VersionStore.largestCopy, limits: StoreLimits = StoreLimits(),
        clock: (@Sendable () -> Int64)? = nil, steadyClock: (@Sendable () -> Int64)? = nil
    ) throws -> VersionStore {
        try VersionStore(
            in: try root(), largestCopy: largestCopy, limits: limits, clock: clock,
            steadyClock: steadyClock,
            log: { [self] sentence in sentences.withLock { $0.append(sentence) } })
    }

    func write(_ text: String, to name: String) throws {
        #expect(FileManager.default.createFile(atPath: "\(path)/\(name)", contents: Data(text.utf8)))
    }

    func append(_ text: String, to name: String) throws {
        let handle = try #require(FileHandle(forWritingAtPath: "\(path)/\(name)"))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    func text(of name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)")), as: UTF8.self)
    }

    func makeDirectory(_ name: String, mode: mode_t = 0o700) throws {
        #expect(mkdir("\(path)/\(name)", mode) == 0)
        #expect(chmod("\(path)/\(name)", mode) == 0)
    }

    /// Opens a file of the source directory with `O_PATH`.
    func file(_ name: String) throws -> OwnedDescriptor {
        let root = try root()
        let bytes = Array(name.utf8CString)
        return OwnedDescriptor(
            adopting: try bytes.withUnsafeBufferPointer {
                try root.path(of: FileName(borrowing: $0.baseAddress!)).release()
            })
    }

    func status(_ name: String) throws -> FileStatus { try file(name).status() }

    func exists(_ name: String) -> Bool { access("\(path)/\(name)", F_OK) == 0 }

    func names(_ directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(path)/\(directory)").sorted()
    }

    func kept() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(path)/.truce/store/kept").sorted()
    }

    /// Makes an empty store: opens a store, which makes its directories and files, and closes it.
    func prepare() throws { _ = try store() }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

func contents(_ store: VersionStore, _ id: VersionID) throws -> String {
    var contents = try store.find(id)
    let file = try store.open(&contents)
    return String(decoding: try file.read(at: 0, count: contents.count(1 << 20, from: 0)), as: UTF8.self)
}
