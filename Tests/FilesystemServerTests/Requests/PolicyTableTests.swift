// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

@Suite struct PolicyTableTests {
    private func rule(
        _ pattern: String, _ policy: UnseenPolicy, for programs: [ProgramTable]? = nil, line: Int = 1
    ) throws -> PathRule {
        PathRule(try PathGlob(pattern), programs: programs, .unseen(policy), file: "f", line: line)
    }

    private func value(
        _ table: PolicyTable, _ path: String, programsOf tables: Set<ProgramTable> = []
    ) -> UnseenPolicy {
        table.value(of: .unseen, forFileAt: Array(path.utf8)) { tables.contains($0) }
    }

    @Test("Of several rules that fit a file, the last decides; without one, the standard value holds")
    func theLastRuleThatFitsDecides() throws {
        let table = PolicyTable([try rule("*", .fail), try rule("*.md", .off), try rule("a/", .fail)])
        #expect(value(table, "x") == .fail)
        #expect(value(table, "x.md") == .off)
        #expect(value(table, "a/x.md") == .fail)
        #expect(value(PolicyTable([try rule("a", .off)]), "b") == .keep)
        #expect(PolicyTable().isEmpty && !table.isEmpty)
    }

    @Test(
        "A rule for certain programs decides only for these programs, which are looked up only for such a rule"
    )
    func aRuleForCertainProgramsDecidesOnlyForThem() throws {
        let table = PolicyTable([
            try rule("*.md", .fail), try rule("a/", .off, for: [.watcher, .background]),
        ])
        #expect(value(table, "a/x.md") == .fail)
        #expect(value(table, "a/x.md", programsOf: [.background]) == .off)
        #expect(value(table, "a/x.md", programsOf: [.shells]) == .fail)
        var lookups = 0
        let policy = table.value(of: .unseen, forFileAt: Array("x.md".utf8)) { _ in
            lookups += 1
            return true
        }
        #expect(policy == .fail && lookups == 0)
    }

    @Test("The rules that decide about a file end with the last rule for all programs")
    func theRulesThatDecideEndWithTheLastRuleForAllPrograms() throws {
        let table = PolicyTable([
            try rule("*", .keep, line: 1), try rule("*", .fail, line: 2),
            try rule("b", .off, for: [.watcher], line: 3), try rule("a", .off, for: [.watcher], line: 4),
        ])
        let lines = { (path: String) in table.rules(forFileAt: Array(path.utf8)).map(\.line) }
        #expect(lines("a") == [4, 2])
        #expect(lines("b") == [3, 2])
        #expect(lines("c") == [2])
        #expect(PolicyTable().rules(forFileAt: Array("a".utf8)).isEmpty)
    }

    @Test("Each setting has a standard value, and that of the class depends on the name of the file")
    func eachSettingHasAStandardValue() {
        let standards = { (path: String) in
            PolicyTable.standards(forFileAt: Array(path.utf8), under: Bounds()).map {
                "\($0.kind.rawValue)=\($0.value)"
            }
        }
        let others = [
            "keep=losses", "keep-for=2d", "keep-count=100", "log=changes", "wait=15s", "hold=10s",
        ]
        #expect(standards("a/b.txt") == ["unseen=keep", "class=document"] + others)
        #expect(standards("a/b.log") == ["unseen=keep", "class=log"] + others)
        #expect(standards("a.sqlite") == ["unseen=keep", "class=database"] + others)
        #expect(standards("") == ["unseen=keep", "class=document"] + others)
    }

    @Test(
        "The value of a setting is shown as a configuration file has it",
        arguments: [
            (.unseen(.off), "off"), (.itemClass(.private), "private"), (.keep(.writes), "writes"),
            (.keepFor(.seconds(36 * 3600)), "36h"), (.keepFor(.seconds(48 * 3600)), "2d"),
            (.keepFor(.milliseconds(1500)), "1500ms"), (.keepCount(7), "7"), (.log(.reads), "reads"),
        ] as [(PathSetting, String)])
    func theValueOfASettingIsShownAsInAFile(setting: PathSetting, text: String) {
        #expect(setting.value == text)
    }
}
