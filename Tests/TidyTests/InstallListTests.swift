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
            "nmap x", "a=1 nmap x", "true && nmap x", "echo \"$(nmap x)\"", "echo x | nmap", "( nmap )",
            "if ! nmap x; then true; fi", "while nmap; do true; done", "done < <(nmap x)", "sudo -n nmap x",
            "timeout --kill-after=1s 10 nmap x", "f() {\n    nmap x\n}", "case x in\n    a) nmap ;;\nesac",
            "case x in\n    a) true ;;\n    b | c) nmap ;;\nesac", "find . -exec nmap '{}' +",
            "x=${y:-$(nmap)}",
            "cat <<END\ntext nmap\nEND\nnmap x", "true 2>/dev/null; nmap", "env A=b nmap", "x=(a b); nmap",
            "[[ a == b ]] && nmap", "((x > 1)) || nmap", "true \\\n    && nmap", "exec {fd}< <(exec nmap)",
            "for x in a b; do nmap; done", "expect 'a sentence' nmap x", "f() {\n    \"$@\"\n}",
            "exec unshare --mount --propagation private nmap",
            "setpriv --reuid=1 bash -euc 'cd /; nmap' bash x",
        ])
    func plantedInShell(source: String) throws {
        let list = try Self.list
        #expect(list.findings(inShell: source, path: "a", functions: Self.functions).count == 1)
    }

    @Test(
        "Words that are no commands are not taken for one",
        arguments: [
            "echo nmap", "x=nmap", "x=(nmap)", "echo 'a; nmap'", "# nmap", "cat <<'END'\nnmap\nEND\n",
            "[[ nmap == nmap ]]", "((nmap > 1))", "case nmap in\n    nmap | wget) true ;;\nesac",
            "\"$nmap\" x",
            "command -v nmap", "true >nmap", "for nmap in a; do true; done", "nmap() {\n    true\n}\nnmap",
            "echo ${nmap:-nmap}", "local -a nmap", "echo $((nmap + 1))",
            "unshare --propagation nmap true", "bash -c 'echo nmap'", "bash -c \"$nmap\"",
        ])
    func innocentInShell(source: String) throws {
        #expect(try Self.list.findings(inShell: source, path: "a", functions: Self.functions) == [])
    }

    @Test(
        "A test that calls a program past the list is found",
        arguments: [
            "Program(\"nmap\")", "Program(name)", "posix_spawn(&pid)", "run(\"/usr/bin/vim\")",
            "Program(\"bash\").run(\"-c\", text)", "Script(\"cat a | nmap\")", "Script(text)",
            "Script(\"\"\"\n    true\n    nmap \\(path)\n    \"\"\")",
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
        let file = TextFile(path: "Scripts/a", text: "#!/usr/bin/env python3\nsubprocess.run(['nmap'])\n")
        #expect(InstallList.findings(inPython: file).count == 1)
    }
}
