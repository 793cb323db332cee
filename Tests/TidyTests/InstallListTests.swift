// SPDX-License-Identifier: Apache-2.0
import Testing

@Suite struct InstallListTests {
    static let scripts = Repository.files.filter { $0.language == .shell }
    static let functions = scripts.reduce(into: Set<String>()) {
        $0.formUnion(ShellScanner($1.text).functions)
    }

    static var list: InstallList {
        get throws {
            let file = try #require(Repository.files.first { $0.path == "Scripts/lib/packages" })
            return InstallList(parsing: file.text)
        }
    }

    @Test("Every program that scripts and tests call is in the install list")
    func everyProgram() throws {
        let list = try Self.list
        var found: [Finding] = []
        for file in Repository.files {
            switch file.language {
            case .shell:
                found += list.findings(inShell: file.text, path: file.path, functions: Self.functions)
            case .python: found += InstallList.findings(inPython: file)
            // The one file behind Program and Script starts processes by itself.
            case .swift where file.path == "Tests/TestSupport/Program.swift": break
            case .swift where file.isBelow("Tests") && !file.isBelow("Tests/TidyTests"):
                found += list.findings(inSwift: file, functions: Self.functions)
            case .swift, .c, .other: break
            }
        }
        #expect(found == [])
    }

    @Test("The scripts are read: the programs they are known to call are seen")
    func programsAreSeen() {
        let called = Self.scripts.flatMap { ShellScanner($0.text).commands }
            .flatMap { InstallList.calls(of: $0.words[...]) }
        for program in [
            "swift", "git", "vim", "sqlite3", "rsync", "setfacl", "findmnt", "fusermount3", "apt-get",
            "bindfs",
        ] {
            #expect(called.contains(program), "\(program)")
        }
    }

    @Test(
        "A program that is not in the list is found",
        arguments: [
            "curl x", "a=1 curl x", "true && curl x", "echo \"$(curl x)\"", "echo x | curl", "( curl )",
            "if ! curl x; then true; fi", "while curl; do true; done", "done < <(curl x)", "sudo -n curl x",
            "timeout --kill-after=1s 10 curl x", "f() {\n    curl x\n}", "case x in\n    a) curl ;;\nesac",
            "case x in\n    a) true ;;\n    b | c) curl ;;\nesac", "find . -exec curl '{}' +",
            "x=${y:-$(curl)}",
            "cat <<END\ntext curl\nEND\ncurl x", "true 2>/dev/null; curl", "env A=b curl", "x=(a b); curl",
            "[[ a == b ]] && curl", "((x > 1)) || curl", "true \\\n    && curl", "exec {fd}< <(exec curl)",
            "for x in a b; do curl; done", "expect 'a sentence' curl x", "f() {\n    \"$@\"\n}",
            "exec unshare --mount --propagation private curl",
            "setpriv --reuid=1 bash -euc 'cd /; curl' bash x",
        ])
    func plantedInShell(source: String) throws {
        let list = try Self.list
        #expect(list.findings(inShell: source, path: "a", functions: Self.functions).count == 1)
    }

    @Test(
        "Words that are no commands are not taken for one",
        arguments: [
            "echo curl", "x=curl", "x=(curl)", "echo 'a; curl'", "# curl", "cat <<'END'\ncurl\nEND\n",
            "[[ curl == curl ]]", "((curl > 1))", "case curl in\n    curl | wget) true ;;\nesac",
            "\"$curl\" x",
            "command -v curl", "true >curl", "for curl in a; do true; done", "curl() {\n    true\n}\ncurl",
            "echo ${curl:-curl}", "local -a curl", "echo $((curl + 1))",
            "unshare --propagation curl true", "bash -c 'echo curl'", "bash -c \"$curl\"",
        ])
    func innocentInShell(source: String) throws {
        #expect(try Self.list.findings(inShell: source, path: "a", functions: Self.functions) == [])
    }

    @Test(
        "A test that calls a program past the list is found",
        arguments: [
            "Program(\"curl\")", "Program(name)", "posix_spawn(&pid)", "run(\"/usr/bin/vim\")",
            "Program(\"bash\").run(\"-c\", text)", "Script(\"cat a | curl\")", "Script(text)",
            "Script(\"\"\"\n    true\n    curl \\(path)\n    \"\"\")",
        ])
    func plantedInSwift(source: String) throws {
        let file = TextFile(path: "Tests/MountedTests/A.swift", text: source)
        #expect(try Self.list.findings(inSwift: file, functions: []).count == 1)
    }

    @Test("Literal programs and scripts of the list pass")
    func innocentInSwift() throws {
        let text = #"""
            let saved = Program("vim").run("-e", path)
            // Program(name) in a comment
            try Program("vim").run("-c", "quit")
            Script(
                """
                true
                """)
            Script("cat \(quoted(path)) | sed 's/a/b/' > \"$target\"")
            """#
        let file = TextFile(path: "Tests/MountedTests/A.swift", text: text)
        #expect(try Self.list.findings(inSwift: file, functions: []) == [])
    }

    @Test("A python script that starts a program is found")
    func plantedInPython() {
        let file = TextFile(path: "Scripts/a", text: "#!/usr/bin/env python3\nsubprocess.run(['curl'])\n")
        #expect(InstallList.findings(inPython: file).count == 1)
    }
}
