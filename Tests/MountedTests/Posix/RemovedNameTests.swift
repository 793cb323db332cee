// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    /// A listing shows the files of the source: when a program that removed a name has ended, no other program finds this name.
    @Suite struct RemovedNameTests {
        struct Case: CustomTestStringConvertible {
            let name: String
            let script: String
            var testDescription: String { name }
        }

        private static let rounds = 10

        private static let repository = """
            rm -rf r; git init -q -b main r; cd r
            git config user.name Ada; git config user.email ada@example.org
            echo 1 >f; git add .; git commit -qm 1

            """

        static let cases = [
            Case(name: "mv t t~; ls -l", script: "echo x >t; mv t t~; ls -l >/dev/null; rm t~"),
            Case(name: "gzip t; ls -l", script: "echo x >t; gzip t; ls -l >/dev/null; rm t.gz"),
            Case(
                name: "git checkout main; git add .",
                script: repository + """
                    git checkout -qb old; echo 2 >b; git add b; git commit -qm 2
                    git checkout -q main; git add .
                    """),
            Case(
                name: "git checkout old; git clean -n",
                script: repository + """
                    git branch old; echo 2 >b; git add b; git commit -qm 2
                    git checkout -q old; test -z "$(git clean -n)"
                    """),
            Case(
                name: "git rm f; rsync -a",
                script: repository + "echo 2 >g; git rm -q f; rsync -a ./ ../copy/; rm -rf ../copy"),
            Case(
                name: "git stash -u; du -a",
                script: repository + "echo 2 >u; git stash -q -u; du -a . >/dev/null"),
            Case(
                name: "git branch -d s/t; git branch -m s/s s",
                script: repository + """
                    git branch s/t; git branch -q -d s/t; git branch s/s; git branch -m s/s s
                    """),
        ]

        @Test("Names that a program removed are gone when the program has exited", arguments: cases)
        func removedNamesAreGoneWhenTheRemoverExits(_ example: Case) throws {
            try MountedDirectory.with { mount in
                let result = try Script(
                    "cd \"$1\"; for ((n = 0; n < $2; n++)); do (set -eu; \(example.script)); done 2>&1"
                ).attempt(
                    mount.path, String(Self.rounds),
                    with: ["GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"])
                #expect(result.isSuccess, "\(result.text)")
                #expect(result.text == "")
                checkForcedSteps(try mount.status())
            }
        }
    }
}
