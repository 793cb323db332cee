// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import Coordination
import Testing

@Suite struct RuleFileTests {
    private func parse(_ text: String) throws(RuleProblem) -> RuleFile {
        try RuleFile(parsing: Array(text.utf8))
    }

    private func shown(_ file: RuleFile) -> [String] {
        file.programs.map { rule in
            "\(rule.table.rawValue) \(rule.belongs ? "" : "not ")\(String(decoding: rule.name, as: UTF8.self))"
        }
    }

    @Test("A rule file may add names to a table and remove names; the result lists removals before additions")
    func aRuleFileMayAddNamesToATableAndRemoveNames() throws {
        let file = try parse(
            """
            # A comment.
            [programs.background]
            names = ["my-backup", 'other*']
            not = ["rsync"]
            [programs.carriers]
            names = []
            [programs]
            watcher.names = ["looker"]
            """)
        #expect(
            shown(file) == [
                "background not rsync", "background my-backup", "background other*", "watcher looker",
            ])
        #expect(try parse("").programs == [])
        #expect(try parse("[programs]").programs == [])
    }

    @Test(
        "A key with more than 16 parts is a fault, and no such key overflows the stack",
        arguments: [
            ("[[paths]]\n" + String(repeating: "a.", count: 100_000) + "b = 1", 2),
            ("a = 1\n\n[" + String(repeating: "a . ", count: 60_000) + "b]", 3),
            (String(repeating: "'#'.", count: 16) + "b = 1", 1),
            ("a = {b = \"\"\"\n\\\"\"\"\"\", " + String(repeating: "\"=\".", count: 16) + "b = 1}", 2),
            ("a = '''\n''''', " + String(repeating: "a.", count: 16) + "b = 1", 2),
            ("# '\n" + String(repeating: "a.", count: 16) + "b = 1", 2),
        ])
    func aKeyWithTooManyPartsIsAFault(text: String, line: Int) {
        #expect {
            try parse(text)
        } throws: { error in
            guard let problem = error as? RuleProblem else { return false }
            return problem.line == line && problem.message.contains("more than 16 parts")
        }
    }

    @Test("Dots in texts and comments of a rule file are no parts of keys")
    func dotsInTextsAreNoPartsOfKeys() throws {
        let file = try parse(
            """
            # a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s
            [[paths]]
            pattern = ["a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s", '*.a', '*.b', '*.c', '*.d']
            unseen = "fail"
            """)
        #expect(file.paths.count == 5)
    }

    @Test(
        "A program's name in a rule file is truncated to 15 bytes, as in the kernel",
        arguments: [
            ("evince-thumbnailer", "evince-thumbnai"), ("evince-thumbnailer*", "evince-thumbnai"),
            ("fifteen-letters", "fifteen-letters"), ("tracker*", "tracker*"),
            ("a*bcdefghijklmn", "a*bcdefghijklmn"), ("fourteen-chars-ä", "fourteen-chars-"),
        ])
    func programNamesAreTruncatedTo15Bytes(name: String, expected: String) throws {
        let file = try parse("[programs.background]\nnames = [\"\(name)\"]")
        #expect(shown(file) == ["background \(expected)"])
    }

    @Test(
        "The error for an invalid rule file names the line, the key and the remedy",
        arguments: [
            ("[programs.background\n", 1, ["not TOML"]),
            ("\n[programs.background]\nnames = [\"a\"]\nnames = [\"b\"]", 4, ["not TOML", "names"]),
            ("\n\nprogram = 1", 3, ["unknown key 'program'", "'programs'"]),
            ("programs = 1", 1, ["'programs' must be a table", "[programs.background]"]),
            (
                "[programs.watcher]\n[programs.watchers]\n", 2,
                [
                    "unknown key 'watchers'",
                    "'watcher', 'saves-by-unlink', 'carriers', 'removers', 'shells', 'adopters'",
                ]
            ),
            ("[programs]\nbackground = [\"a\"]", 2, ["'programs.background' must be a table"]),
            (
                "[programs.background]\nname = [\"a\"]", 2,
                ["unknown key 'name'", "[programs.background]", "'names', 'not'"]
            ),
            ("[programs.carriers]\nnames = \"mv\"", 2, ["'programs.carriers.names' must be a list"]),
            ("[programs.carriers]\nnot = [1]", 2, ["'programs.carriers.not' must be a list"]),
            ("[programs.carriers]\nnames = [\n\"a\",\n\"\"]", 4, ["''", "is empty"]),
            ("[programs.adopters]\nnames = [\n\"a\",\n\"/a/b\"]", 4, ["'/a/b'", "last part"]),
            ("[programs.adopters]\nnames = [\"{D}\"]", 2, ["'{D}'", "bracket"]),
            ("[programs.adopters]\nnames = [\"a\\u0007\"]", 2, ["programs.adopters.names", "control"]),
            ("[programs.adopters]\nnames = [\"a*bcdefghijklmnop\"]", 2, ["15 bytes", "a*bcdefghijklmnop"]),
            (
                "[programs.background]\nnames = [\"a\"]\nnot = [\"b\",\n \"a\"]", 4,
                ["'a' is in 'names' and in 'not' of [programs.background]"]
            ),
            ("a = 1\n\0", 2, ["zero byte"]),
        ])
    func theErrorForARuleFileNamesTheLineTheKeyAndTheRemedy(text: String, line: Int, words: [String]) {
        do throws(RuleProblem) {
            let file = try parse(text)
            Issue.record("nothing is wrong: \(shown(file))")
        } catch {
            #expect(error.line == line, "\(error.message)")
            for word in words { #expect(error.message.contains(word), "\(error.message)") }
        }
    }

    @Test("A rule file with invalid UTF-8, too many names or deep nesting is refused")
    func aRuleFileWithTooManyNamesIsRefused() {
        let notText = Array("# a\n# b".utf8) + [0xFF]
        do throws(RuleProblem) {
            _ = try RuleFile(parsing: notText)
            Issue.record("nothing is wrong")
        } catch { #expect(error.line == 2 && error.message.contains("UTF-8")) }
        let names = (0...RuleFile.mostNames).map { "\"n\($0)\"" }.joined(separator: ",")
        do throws(RuleProblem) {
            _ = try parse("[programs.background]\nnames = [\(names)]")
            Issue.record("nothing is wrong")
        } catch { #expect(error.message.contains("a file may have 500")) }
        let nested = String(repeating: "[", count: 100_000)
        #expect(throws: RuleProblem.self) { try self.parse("a = \(nested)") }
    }

    @Test("The shipped rule file is valid, and adds names to every table")
    func theShippedRuleFileIsValidAndComplete() {
        let rules = Rules.shipped
        for table in ProgramTable.allCases {
            #expect(rules.programs.contains { $0.table == table && $0.belongs }, "\(table.rawValue)")
        }
        #expect(rules.problems == [])
    }
}
