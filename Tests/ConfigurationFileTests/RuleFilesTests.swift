// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import Coordination
import Glibc
import LinuxSystem
import Testing

@Suite struct RuleFilesTests {
    private let folder = RuleFolder()

    private func files(isInPlace: Bool = true, userFile: String? = nil) throws -> RuleFiles {
        RuleFiles(
            in: try OwnedDescriptor.openResolved(Array(folder.path.utf8)), mountedAt: folder.path,
            isInPlace: isInPlace, system: folder.path + "/system", userFile: userFile, of: geteuid(),
            systemOwner: geteuid())
    }

    private func entry(_ pattern: String, _ policy: String) -> String {
        "[[paths]]\npattern = \"\(pattern)\"\nunseen = \"\(policy)\"\n"
    }

    private func shown(_ files: RuleFiles) -> [String] {
        files.rules.paths.map {
            "\($0.pattern.text) \($0.setting.value) \($0.file.split(separator: "/").last ?? "")"
        }
    }

    @Test("A changed file gets its new rules, and a removed file loses its rules")
    func aChangedFileGetsItsNewRules() throws {
        folder.write("system", entry("a", "fail"))
        var files = try files()
        #expect(shown(files) == ["a fail system"])
        #expect(files.refresh() == [])
        // The second write may happen within the resolution of the file's times.
        folder.write("system", entry("a", "keep"))
        #expect(files.refresh() == ["the rules of \(folder.path)/system are in force"])
        #expect(shown(files) == ["a keep system"])
        folder.write("new", entry("b", "keep"))
        rename(folder.path + "/new", folder.path + "/system")
        #expect(files.refresh().count == 1)
        #expect(shown(files) == ["b keep system"])
        folder.remove("system")
        #expect(files.refresh() == ["\(folder.path)/system is gone, and its rules with it"])
        #expect(shown(files) == [] && files.refresh() == [])
        folder.write("system", entry("c", "off"))
        #expect(files.refresh().count == 1)
        #expect(shown(files) == ["c off system"])
    }

    @Test(
        "Each change of the files makes an event, after which the files have their new rules (D239)",
        arguments: [true, false])
    func eachChangeMakesAnEvent(isInPlace: Bool) throws {
        var files = try files(isInPlace: isInPlace, userFile: folder.path + "/user")
        let watch = try files.watch()
        _ = watch.renew()
        for name in [".truce.toml", "system", "user"] {
            for text in [entry("a", "fail"), entry("a", "keep")] {
                folder.write(name, text)
                // The wait would end without an event only if the code is wrong.
                watch.wait(until: MonotonicClock.nanoseconds + 60_000_000_000)
                #expect(watch.takeChanges())
                _ = watch.renew()
                #expect(files.refresh() == ["the rules of \(folder.path)/\(name) are in force"])
            }
        }
        folder.remove("user")
        watch.wait(until: MonotonicClock.nanoseconds + 60_000_000_000)
        #expect(watch.takeChanges() && files.refresh().count == 1)
    }

    @Test("If a changed file has an error, its former rules stay in force until the error is corrected")
    func formerRulesStayInForceDuringAnError() throws {
        folder.write("system", entry("a", "fail"))
        var files = try files()
        folder.write("system", entry("a", "fail") + "unsen = \"fail\"")
        let problem = "\(folder.path)/system:4: unknown key 'unsen'"
        let lines = files.refresh()
        #expect(lines.count == 1 && lines[0].hasPrefix(problem), "\(lines)")
        #expect(lines[0].hasSuffix("the rules that it had before stay in force"), "\(lines)")
        #expect(shown(files) == ["a fail system"] && files.rules.problems == lines)
        #expect(files.refresh() == [])
        // A file that other users may write to is not trusted.
        folder.write("system", entry("a", "off"), mode: 0o666)
        #expect(files.refresh().first?.contains("chmod go-w") == true)
        #expect(shown(files) == ["a fail system"])
        folder.write("system", entry("a", "keep"))
        #expect(files.refresh().count == 1)
        #expect(shown(files) == ["a keep system"] && files.rules.problems == [])
    }

    @Test("The user's rules override the administrator's rules, and both override the rules in the source")
    func rulesInTheSourceAreOverridden() throws {
        folder.write("system", entry("s", "fail"))
        folder.write(".truce.toml", entry("d", "fail"))
        let files = try files(userFile: folder.write("user", entry("u", "fail")))
        #expect(shown(files) == ["d fail .truce.toml", "s fail system", "u fail user"])
    }

    @Test("A file in the source that is a link, has an unsafe setting or is another user's is refused")
    func unsafeFilesInTheSourceAreRefused() throws {
        symlink(folder.write("user", entry("a", "fail")), folder.path + "/.truce.toml")
        var files = try files()
        #expect(
            files.rules.problems.first?.hasPrefix("\(folder.path)/.truce.toml: it is a symbolic link") == true
        )
        folder.remove(".truce.toml")
        #expect(files.refresh().count == 1 && files.rules.problems == [])
        folder.write(".truce.toml", entry("a", "off"))
        #expect(files.refresh().first?.contains(".truce.toml:3: 'off' is no value") == true)
        if geteuid() == 0 {
            folder.write(".truce.toml", entry("a", "fail"))
            chown(folder.path + "/.truce.toml", 65534, 65534)
            #expect(files.refresh().first?.contains("belongs to user 65534") == true)
        }
        #expect(shown(files) == [])
        folder.write(".truce.toml", entry("a", "fail"))
        chown(folder.path + "/.truce.toml", geteuid(), getegid())
        _ = files.refresh()
        #expect(shown(files) == ["a fail .truce.toml"])
    }

    @Test("`truce rules --check` of a file in a source accepts only what such a file may contain")
    func aCheckOfAFileInTheSourceIsStrict() throws {
        folder.write(".truce.toml", entry("a", "off"))
        #expect(throws: RuleProblem.self) {
            try RuleFile(at: folder.path + "/.truce.toml", ownedBy: [geteuid()])
        }
        #expect(try RuleFile(at: folder.write("user", entry("a", "off")), ownedBy: [geteuid()]) != nil)
    }
}
