// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

@Suite struct DirectoryStreamTests {
    @Test("A read error is thrown, and not taken for the end of the directory")
    func aReadErrorIsNotTheEndOfADirectory() throws {
        let descriptor = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try #require(descriptor >= 0)
        var stream = try DirectoryStream(reading: OwnedDescriptor(adopting: descriptor))
        // The stream has not read any entry yet. Its descriptor is replaced by one of /dev/null, which is no directory.
        let other = open("/dev/null", O_RDONLY | O_CLOEXEC)
        try #require(dup2(other, descriptor) == descriptor)
        close(other)
        var failure: Errno?
        do throws(Errno) {
            try stream.forEach(from: 0) { _, _, _, _ in true }
        } catch {
            failure = error
        }
        #expect(failure == .some(Errno(rawValue: ENOTDIR)))
    }

    @Test("The end of a directory is no error, also after the directory was removed")
    func theEndOfADirectoryIsNoError() throws {
        var template = Array("/tmp/truce-stream-XXXXXX".utf8CString)
        let path = String(cString: try #require(mkdtemp(&template)))
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try #require(descriptor >= 0)
        var stream = try DirectoryStream(reading: OwnedDescriptor(adopting: descriptor))
        var count = 0
        try stream.forEach(from: 0) { _, _, _, _ in
            count += 1
            return true
        }
        #expect(count == 2)
        #expect(rmdir(path) == 0)
        try stream.forEach(from: 0) { _, _, _, _ in true }
    }
}
