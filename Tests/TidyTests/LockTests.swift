// SPDX-License-Identifier: Apache-2.0
import Testing

/// Only the object that has a lock takes this lock, in the file that declares its state. So all transitions of the state are in
/// one file.
@Suite("Locks that only their own object takes")
struct LockTests {
    @Test("no object takes the lock of another object")
    func noObjectTakesAnotherObjectsLock() {
        #expect(Repository.files.flatMap { Self.foreignLocks(in: $0) } == [])
    }

    @Test("each lock that a type stores is private")
    func eachStoredLockIsPrivate() {
        #expect(Repository.files.flatMap { Self.openLocks(in: $0) } == [])
    }

    @Test(
        "the check finds a planted lock that another object takes or could take",
        arguments: [
            ("handle.state.withLock { $0.isOpen = true }", 1, 0),
            ("let isOpen = nodes[id]?.state.withLock({ $0.isOpen })", 1, 0),
            ("files.map { $0.state.withLock { $0.place } }", 1, 0),
            ("find(id)!.stream.withLockIfAvailable { $0 }", 1, 0),
            ("self.state.withLock { $0.isOpen = true }", 0, 0),
            ("self?.state.withLock { $0.isOpen = true }", 0, 0),
            ("state.withLock { $0.isOpen }", 0, 0),
            ("shards[Self.shard(of: id)].withLock { $0[id] }", 0, 0),
            ("// handle.state.withLock", 0, 0),
            ("    let state = Mutex(State())", 0, 1),
            ("    package let state: Mutex<State>", 0, 1),
            ("    static let cache = Mutex<[Int: Int]>([:])", 0, 1),
            ("    private let state: Mutex<State>", 0, 0),
            ("    fileprivate static let state = Mutex(0)", 0, 0),
        ])
    func aPlantedSharedLockIsFound(line: String, foreign: Int, open: Int) {
        let file = TextFile(path: "Sources/FilesystemServer/A.swift", text: line)
        #expect(Self.foreignLocks(in: file).count == foreign)
        #expect(Self.openLocks(in: file).count == open)
    }

    private static func foreignLocks(in file: TextFile) -> [Finding] {
        findings(in: file, "the lock of another object") { line in
            line.matches(of: /([\w\])}?!]+)\.\w+\.withLock/).contains { match in
                !["self", "self?"].contains(String(match.output.1))
            }
        }
    }

    private static func openLocks(in file: TextFile) -> [Finding] {
        findings(in: file, "a lock that other files can take") { line in
            let declaration = /^\s*(?:\w+ )*let \w+(?:: Mutex<| = Mutex\b)/
            return line.firstMatch(of: declaration) != nil && !line.contains("private ")
        }
    }

    private static func findings(
        in file: TextFile, _ what: String, where isFinding: (Substring) -> Bool
    ) -> [Finding] {
        guard file.language == .swift, file.isBelow("Sources") else { return [] }
        return zip(1..., file.codeLines).compactMap { number, line in
            isFinding(line) ? Finding(path: file.path, line: number, what: what) : nil
        }
    }
}
