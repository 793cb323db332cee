// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import Coordination
import Glibc
import Testing

@Suite struct RulesTests {
    private let folder = RuleFolder()
    private let user = geteuid()

    private func load(system: String, user file: String?) -> Rules {
        RuleFiles(system: system, userFile: file, of: user, systemOwner: user).rules
    }

    private func problem(_ path: String, of user: UInt32? = nil) -> String {
        let rules = RuleFiles(system: "/nowhere", userFile: path, of: user ?? self.user).rules
        return rules.problems.first ?? ""
    }

    @Test(
        "A user's rules override the administrator's rules, and the administrator's rules override the shipped rules"
    )
    func aUsersRulesOverrideTheAdministratorsRules() {
        let rules = load(
            system: folder.write(
                "system", "[programs.background]\nnot = [\"rsync\"]\nnames = [\"a\"]"),
            user: folder.write("user", "[programs.background]\nnames = [\"rsync\"]"))
        let names = rules.programs.filter { $0.table == .background }.prefix(3).map { rule in
            (rule.belongs ? "" : "not ") + String(decoding: rule.name, as: UTF8.self)
        }
        #expect(names == ["rsync", "not rsync", "a"])
        #expect(
            rules.sources.map(\.path) == ["shipped", folder.path + "/system", folder.path + "/user"])
    }

    @Test("A rule file with an error is ignored as a whole and reported; the other rule files apply")
    func aRuleFileWithAnErrorIsIgnoredAsAWhole() {
        let user = folder.write("user", "[programs.background]\nnames = [\"a\"]\nnam = []")
        let rules = load(
            system: folder.write("system", "[programs.background]\nnames = [\"b\"]"), user: user)
        #expect(!rules.programs.contains { $0.name == Array("a".utf8) })
        #expect(rules.programs.contains { $0.name == Array("b".utf8) })
        #expect(rules.programs.contains { $0.name == Array("restic".utf8) })
        #expect(rules.problems.count == 1)
        #expect(rules.problems[0].hasPrefix("\(user):3: unknown key 'nam'"))
        #expect(rules.problems[0].hasSuffix("nothing of that file is in force"))
    }

    @Test("Missing rule files are not reported as problems")
    func missingRuleFilesAreNotReported() {
        let rules = load(system: folder.path + "/system", user: folder.path + "/user/below")
        #expect(rules.sources.map(\.path) == ["shipped"])
        #expect(rules.problems == [])
    }

    @Test(
        "A rule file is not read if it is a link, no regular file, too long, another user's, or writable by others"
    )
    func unsafeRuleFilesAreNotRead() {
        let right = folder.write("user", "[programs]")
        #expect(problem(right) == "")
        symlink(right, folder.path + "/link")
        #expect(problem(folder.path + "/link").contains("symbolic link"))
        #expect(problem(folder.path).contains("not a regular file"))
        #expect(problem("/dev/null").contains("not a regular file"))
        #expect(problem(folder.write("user", "", mode: 0o664)).contains("chmod go-w"))
        #expect(problem(folder.write("user", "", mode: 0o646)).contains("chmod go-w"))
        let long = String(repeating: "#", count: RuleFile.longest + 1)
        #expect(problem(folder.write("user", long)).contains("256 KiB"))
        #expect(problem(folder.write("user", String(long.dropLast()))) == "")
        if user == 0 {
            chown(folder.path + "/user", 65534, 65534)
            #expect(problem(folder.path + "/user").contains("belongs to user 65534"))
            #expect(problem(folder.path + "/user", of: 65534) == "")
            #expect(problem(folder.path + "/user", of: 1000).contains("belongs to user 65534"))
        }
        // A mount must not wait because the file of rules is a FIFO.
        unlink(folder.path + "/user")
        mkfifo(folder.path + "/user", 0o600)
        #expect(problem(folder.path + "/user").contains("not a regular file"))
    }

    @Test(
        "XDG_CONFIG_HOME or HOME gives the path of the user's rule file",
        arguments: [
            (["XDG_CONFIG_HOME": "/x", "HOME": "/h"], "/x/truce/truce.toml"),
            (["HOME": "/h"], "/h/.config/truce/truce.toml"),
            (["XDG_CONFIG_HOME": "x", "HOME": "/h"], "/h/.config/truce/truce.toml"),
            (["XDG_CONFIG_HOME": "", "HOME": "h"], nil), ([:], nil),
        ] as [([String: String], String?)])
    func theEnvironmentGivesThePathOfTheUsersRuleFile(environment: [String: String], path: String?) {
        #expect(Rules.userFile { environment[$0] } == path)
    }
}
