// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A directory for a single test, with the files that the test writes.
final class RuleFolder {
    let path: String

    init() {
        var template = Array("/tmp/truce-rules-XXXXXX".utf8CString)
        let bytes = mkdtemp(&template) == nil ? [] : template.dropLast().map(UInt8.init)
        path = String(decoding: bytes, as: UTF8.self)
    }

    deinit {
        for name in ["system", "user", "link", ".truce.toml", "new"] { unlink(path + "/" + name) }
        rmdir(path)
    }

    @discardableResult
    func write(_ name: String, _ text: String, mode: mode_t = 0o644) -> String {
        let path = self.path + "/" + name
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode)
        _ = Glibc.write(descriptor, text, text.utf8.count)
        fchmod(descriptor, mode)
        close(descriptor)
        return path
    }

    func remove(_ name: String) { unlink(path + "/" + name) }
}
