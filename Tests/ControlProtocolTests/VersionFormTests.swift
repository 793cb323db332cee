// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Testing

@Suite("The size of a version's description")
struct VersionFormTests {
    /// The longest description of a version with these texts.
    private static func form(_ text: String) -> VersionForm {
        var form = VersionForm(
            id: "ffffffffffffffff", path: Array(text.utf8) + [0xFF], cause: text,
            time: -1.234567890123456e-300,
            size: .min, user: .max, group: .max, mode: .max)
        let actor = VersionActorForm(program: text, pid: .min, user: .max, run: text)
        (form.author, form.saver) = (actor, actor)
        (form.standing, form.read, form.generation) = (text, text, text)
        form.readTime = -1.234567890123456e-300
        form.writers = [text, text, text]
        form.setConflictCopy(Array(text.utf8) + [0xFF])
        return form
    }

    @Test(
        "The largest possible size of a description is at least its size, and not much more",
        arguments: [
            "", "a", "é/b", String(repeating: "long name/", count: 400), "\u{1}\u{1f}\u{7f}", "\"\\\n\t",
            "\u{2028}",
        ])
    func theLargestSizeIsAtLeastTheSize(text: String) throws {
        let form = Self.form(text)
        let size = try JSONCodec.encode(form).count
        #expect(form.mostBytes >= size)
        #expect(form.mostBytes <= 3 * size)
    }
}
