// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import Coordination
import Testing

@Suite struct PathRuleTests {
    private func parse(_ text: String, as scope: RuleScope = .everywhere) throws(RuleProblem) -> [PathRule] {
        try RuleFile(parsing: Array(text.utf8), as: scope, from: "f").paths
    }

    private func shown(_ rules: [PathRule]) -> [String] {
        rules.map { rule in
            let programs = rule.programs.map { " for " + $0.map(\.rawValue).joined(separator: " ") } ?? ""
            return
                "\(rule.pattern.text) \(rule.setting.kind.rawValue)=\(rule.setting.value)\(programs) \(rule.file):\(rule.line)"
        }
    }

    private func expectProblem(_ text: String, as scope: RuleScope, at line: Int, _ words: [String]) {
        do throws(RuleProblem) {
            let rules = try parse(text, as: scope)
            Issue.record("nothing is wrong: \(shown(rules))")
        } catch {
            #expect(error.line == line, "\(error.message)")
            for word in words { #expect(error.message.contains(word), "\(error.message)") }
        }
    }

    @Test("Each setting of an entry for paths is a rule with the line of the setting")
    func eachSettingOfAnEntryIsARuleWithItsLine() throws {
        let rules = try parse(
            """
            # A comment.
            [[paths]]
            pattern = "*.json"
            unseen = "fail"
            class = "document"
            keep = "writes"
            keep-for = "12h"
            keep-count = 50
            log = "reads"
            wait = "1500ms"
            hold = "2m"

            [programs.background]
            names = ["a"]

            [[paths]] # A second entry.
            programs = ["watcher", "background"]
            unseen = "off"
            pattern = [
              "a/", "b",
            ]
            """)
        #expect(
            shown(rules) == [
                "*.json unseen=fail f:4", "*.json class=document f:5", "*.json keep=writes f:6",
                "*.json keep-for=12h f:7", "*.json keep-count=50 f:8", "*.json log=reads f:9",
                "*.json wait=1500ms f:10", "*.json hold=2m f:11",
                "a/ unseen=off for watcher background f:18",
                "b unseen=off for watcher background f:18",
            ])
        #expect(shown(try parse("paths = []")) == [])
        let inline = try parse("\npaths = [{ pattern = \"a\", unseen = \"keep\" }]")
        #expect(shown(inline) == ["a unseen=keep f:2"])
    }

    @Test(
        "The error for an invalid entry for paths names the line, the key and the remedy",
        arguments: [
            ("paths = 1", 1, ["'paths' must be a list of tables", "[[paths]]"]),
            ("\npaths = [1]", 2, ["'paths' must be a list of tables"]),
            ("[[paths]]\npattern = \"a\"", 1, ["no setting", "'unseen', 'class'"]),
            ("[[paths]]\nunseen = \"fail\"", 1, ["no 'pattern'", "*.json"]),
            ("[[paths]]\npattern = []\nunseen = \"fail\"", 2, ["'pattern' is an empty list"]),
            ("[[paths]]\npattern = 1\nunseen = \"fail\"", 2, ["'pattern' must be a pattern or a list"]),
            (
                "[[paths]]\npattern = [\"b\",\n\"a//b\"]\nunseen = \"fail\"", 3,
                ["'a//b' is no pattern", "write one '/'"]
            ),
            (
                "[[paths]]\npattern = \"a\"\nunseen = \"keep\"\n[[paths]]\npattern = \"a\"\nunseen = \"no\"",
                6,
                ["'no' is no value of 'unseen'", "\"keep\", \"fail\", \"merge\", \"off\""]
            ),
            ("[[paths]]\npattern = \"a\"\nunseen = true", 3, ["'unseen' must be one of \"keep\""]),
            (
                "[[paths]]\npattern = \"a\"\nclass = \"background\"", 3,
                ["'background' is no value of 'class'", "\"document\""]
            ),
            (
                "[[paths]]\npattern = \"a\"\nprograms = [\"shells\"]\nclass = \"log\"", 4,
                ["one 'class' for all programs", "without 'programs'"]
            ),
            (
                "[[paths]]\npattern = \"a\"\nprograms = [\"shells\"]\nkeep-for = \"1h\"", 4,
                ["one 'keep-for' for all programs", "without 'programs'"]
            ),
            ("[[paths]]\npattern = \"a\"\nkeep = \"all\"", 3, ["'all' is no value of 'keep'", "\"writes\""]),
            ("[[paths]]\npattern = \"a\"\nkeep-for = 3", 3, ["'keep-for' must be a time", "\"48h\""]),
            ("[[paths]]\npattern = \"a\"\nkeep-count = 0", 3, ["'keep-count' must be a number from 1"]),
            ("[[paths]]\npattern = \"a\"\nlog = true", 3, ["'log' must be one of \"changes\""]),
            ("[[paths]]\npattern = \"a\"\nwait = \"0s\"", 3, ["'wait' must be a time from 1ms to 24h"]),
            ("[[paths]]\npattern = \"a\"\nhold = \"25h\"", 3, ["'hold' must be a time from 1ms to 24h"]),
            ("[[paths]]\npattern = \"a\"\nwait = 5", 3, ["'wait' must be a time", "\"5s\""]),
            (
                "[[paths]]\npattern = \"a\"\nunsen = \"fail\"", 3,
                ["unknown key 'unsen'", "'pattern', 'programs', 'unseen'"]
            ),
            (
                "[[paths]]\npattern = \"a\"\nprograms = [\"agents\"]\nunseen = \"fail\"", 3,
                ["'agents' is no table of programs", "'background', 'watcher'"]
            ),
            (
                "[[paths]]\npattern = \"a\"\nprograms = []\nunseen = \"fail\"", 3,
                ["'programs' is an empty list"]
            ),
        ])
    func theErrorForAnInvalidEntryNamesTheLineTheKeyAndTheRemedy(text: String, line: Int, words: [String]) {
        expectProblem(text, as: .everywhere, at: line, words)
    }

    @Test(
        "A file in the source may not contain rules for programs or turn detection off",
        arguments: [
            ("[programs.background]\nnames = [\"a\"]", 1, ["unknown key 'programs'", "known is 'paths'"]),
            (
                "[[paths]]\npattern = \"a\"\nunseen = \"off\"", 3,
                ["'off' is no value of 'unseen' in a file in the source"]
            ),
            (
                "[[paths]]\npattern = \"a\"\nclass = \"private\"", 3,
                ["'private' is no value of 'class' in a file in the source", "known is \"document\""]
            ),
            ("[[paths]]\npattern = \"a\"\nwait = \"1s\"", 3, ["unknown key 'wait'"]),
            (
                "[[paths]]\npattern = \"a\"\nunseen = \"merge\"", 3,
                ["'merge' is no value of 'unseen' in a file in the source"]
            ),
        ])
    func aFileInTheSourceMayNotWeakenTheRules(text: String, line: Int, words: [String]) throws {
        expectProblem(text, as: .source, at: line, words)
        #expect(
            shown(try parse("[[paths]]\npattern = \"a\"\nunseen = \"fail\"", as: .source)) == [
                "a unseen=fail f:3"
            ])
    }

    @Test("A file with too many rules for paths is refused")
    func aFileWithTooManyRulesForPathsIsRefused() {
        let patterns = (0...500).map { "\"n\($0)\"" }.joined(separator: ",")
        expectProblem(
            "[[paths]]\nunseen = \"fail\"\npattern = [\(patterns)]", as: .everywhere, at: 1,
            ["501 rules", "may have 500"])
    }
}
