// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

/// The environment of other processes, which can contain any bytes.
@Suite("Environments of processes")
struct ProcessEnvironmentTests {
    @Test(
        "the first value of a variable is found, and nil if the variable is missing",
        arguments: [
            ("A=1\0B=2\0", ["1", "2"]), ("B=2\0A=\0", ["", "2"]), ("A=1\0A=2\0", ["1", nil]),
            ("", [nil, nil]),
            ("XA=1\0A\0B=a=b", [nil, "a=b"]), ("\0\0A=x", ["x", nil]),
        ])
    func variablesAreFound(text: String, values: [String?]) {
        let found = ProcessInspection.environment(in: Array(text.utf8), ["A", "B"])
        #expect(found == values.map { $0.map { Array($0.utf8) } })
    }

    @Test("the environment of this process has the variables with which it began")
    func ownEnvironmentIsFound() throws {
        let path = try #require(getenv("PATH").map { String(cString: $0) })
        let found = ProcessInspection.environment(ofProcess: getpid(), ["PATH", "NO_SUCH_VARIABLE"])
        #expect(found == [Array(path.utf8), nil])
        #expect(ProcessInspection.environment(ofProcess: -1, ["PATH"]) == [nil])
    }
}
