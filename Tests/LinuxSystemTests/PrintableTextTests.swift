// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Testing

/// Checks how text from another user is printed. Control characters in the text must not reach the terminal.
@Suite struct ShownTextTests {
    @Test(
        "Control characters, line ends and characters that change the text direction are escaped",
        arguments: [
            ("a\nb", #"a\x0ab"#), ("\u{1b}[31m", #"\x1b[31m"#), ("\u{0}\t\u{7f}", #"\x00\x09\x7f"#),
            ("\u{85}\u{9b}31m", #"\u{85}\u{9b}31m"#), ("\u{2028}\u{2029}", #"\u{2028}\u{2029}"#),
            ("\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}", #"\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}"#),
            ("\u{2066}\u{2067}\u{2068}\u{2069}", #"\u{2066}\u{2067}\u{2068}\u{2069}"#),
            ("\u{200e}\u{200f}\u{61c}", #"\u{200e}\u{200f}\u{61c}"#), ("a\r\nb", #"a\x0d\x0ab"#),
        ])
    func controlAndBidiCharactersAreEscaped(text: String, printable: String) {
        #expect(text.printable == printable)
        #expect(Array(text.utf8).printable == printable)
        #expect(printable.printable == printable)
    }

    @Test(
        "All printable characters stay unchanged, also joined characters and right-to-left text",
        arguments: ["", "notes.md", "Übung 3", "כתב", "نامه\u{200c}ها", "👩\u{200d}🚀", "e\u{301}", #"\x0a"#])
    func printableCharactersStayUnchanged(text: String) {
        #expect(text.printable == text)
        #expect(Array(text.utf8).printable == text)
    }

    @Test(
        "A byte that is not valid UTF-8 is escaped",
        arguments: [
            ([0xff], #"\xff"#), ([0x61, 0xc3], #"a\xc3"#), ([0x80, 0x61], #"\x80a"#),
            ([0xc0, 0xaf], #"\xc0\xaf"#),
            ([0xed, 0xa0, 0x80], #"\xed\xa0\x80"#), ([0xf0, 0x9f, 0x98, 0x61], #"\xf0\x9f\x98a"#),
            ([0xe2, 0x80, 0xae, 0xff], #"\u{202e}\xff"#), ([0x0a, 0xfe], #"\x0a\xfe"#),
        ] as [([UInt8], String)])
    func invalidUTF8IsEscaped(bytes: [UInt8], printable: String) {
        #expect(bytes.printable == printable)
    }

    @Test(
        "Each message is printed as one line, whatever the message contains; text to be printed exactly stays unchanged"
    )
    func eachMessageIsPrintedAsOneLine() throws {
        let pipe = try Pipe()
        LineOutput.say(["one\ntwo\u{202e}", "three"], to: pipe.writeEnd.rawValue)
        LineOutput.writeExactly(line: Array("{\u{202e}}".utf8), to: pipe.writeEnd.rawValue)
        let read = try pipe.reading().readToEnd()
        #expect(
            String(decoding: read, as: UTF8.self) == "one\\x0atwo\\u{202e}\nthree\n{\u{202e}}\n")
    }
}
