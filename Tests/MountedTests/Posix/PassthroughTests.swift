// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// The data path is chosen for each inode. Programs get the same results, whether the kernel or the daemon reads and writes the
/// data.
///
/// `Tests/Workers/posix/together.py` checks in every data mode that programs which have a file open get the same results,
/// whatever happens to the file.
extension MountTests {
    @Suite struct PassthroughTests {
        @Test("A file is registered for passthrough once, and is unregistered when the kernel forgets it")
        func aFileIsRegisteredForPassthroughOnce() throws {
            try MountedDirectory.with { mount in
                let trace = try Trace(of: mount.daemonPID)
                try Self.manyOpens.run(at: mount.path)
                // `dd` writes byte by byte. The kernel may send a request each time that it has read the file's attributes.
                try Program("dd").run(
                    "if=/dev/zero", "of=document", "bs=1", "count=2000", "conv=notrunc", "status=none",
                    at: mount.path)
                let isPassed = try Lab.dataPath == .passthrough
                let questions = trace.count("security.capability")
                print("2,000 writes and 12 opens: \(questions) questions about privileges")
                #expect(questions > 0 && questions < 40)
                #expect(trace.count(Trace.register) == (isPassed ? 1 : 0))
                #expect(trace.count(Trace.giveBack) == 0)
                try Program("rm").run("document", "link", at: mount.path)
                try eventually(within: .seconds(10), "the file to be given back\n\(trace.text.suffix(2000))")
                {
                    trace.count(Trace.giveBack) == (isPassed ? 1 : 0)
                }
                try trace.end()
                let counters = try mount.counters
                #expect((counters.write > 0) == !isPassed, "\(counters.summary)")
                checkForcedSteps(try mount.status())
            }
        }

        /// A script that opens a file by two names, in parallel and in sequence, while a privilege is added and removed.
        private static let manyOpens = Script(
            """
            echo first >document
            exec 3<document 4>>document 5<>document
            ln document link
            exec 6<>link
            chmod u+s document
            exec 7<document 8>>link
            chmod u-s document
            for handle in 4 5 6 8; do echo "$handle" >&"$handle"; done
            cat <&3 >/dev/null
            cat <&7 >/dev/null
            exec 3<&- 4>&- 5>&- 6>&- 7<&- 8>&-
            echo last >>document
            cat link >/dev/null
            """)

        @Test(
            "The daemon itself reads and writes the data of files with set-user-ID, set-group-ID or capabilities"
        )
        func theDaemonReadsAndWritesThePrivilegedFiles() throws {
            guard Self.isRoot else { return print("only root gives capabilities: shown by the run as root") }
            try MountedDirectory.with("allow_other") { mount in
                let isPassed = try Lab.dataPath == .passthrough
                func check(_ what: String, isPassed: Bool) throws {
                    let before = try mount.counters
                    try Script("cat document >/dev/null; echo more >>document").run(at: mount.path)
                    let after = try mount.counters
                    let (reads, writes) = (after.read - before.read, after.write - before.write)
                    #expect(
                        (reads == 0) == isPassed && (writes == 0) == isPassed, "\(what): \(reads), \(writes)")
                }
                try Script("echo contents >document; chmod 777 document").run(at: mount.path)
                try check("plain", isPassed: isPassed)
                for (given, taken) in Self.privileges {
                    try given.run(at: mount.path)
                    try check("with privileges", isPassed: false)
                    try taken.run(at: mount.path)
                    try check("without", isPassed: isPassed)
                }
                // The daemon gets no events of out-of-band changes, so it checks the privilege at each open for writing.
                try Script("chmod 4777 \"$1/document\"").run(mount.below)
                try Script(
                    "echo theirs | setpriv --reuid=65534 --regid=65534 --clear-groups tee -a document >/dev/null"
                )
                .run(at: mount.path)
                #expect(try Program("stat").run("--format=%a", mount.below + "/document").text == "777\n")
                checkForcedSteps(try mount.status())
            }
        }

        /// The privileges of a file. A write by root removes no set-user-ID bit, but it removes a capability.
        private static let privileges = [
            (Script("chmod u+s document"), Script("chmod u-s document")),
            (Script("chmod g+s document"), Script("chmod g-s document")),
            (
                Script(
                    "setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 document"),
                Script("echo plain >new; chmod 777 new; mv new document")
            ),
        ]

        @Test(
            "A program file whose set-user-ID bit changes while it is open still runs, and cannot be written meanwhile"
        )
        func aProgramFileStillRunsWhileItsSetUserIDBitChanges() throws {
            let plain = try Lab.freshDirectory("plain")
            let expected = try Self.programs.run(plain).text
            #expect(expected.contains("runs again") && expected.contains("busy to run"))
            try MountedDirectory.with { mount in
                #expect(try Self.programs.run(mount.path).text == expected)
                checkForcedSteps(try mount.status())
            }
        }

        private static let programs = Script(
            """
            cd "$1"
            cp "$(command -v sleep)" program
            exec 3<program
            chmod u+s program
            ./program 0 && echo "runs"
            exec 4<program
            chmod u-s program
            ./program 0 && echo "runs again"
            cmp program /proc/self/fd/3 && cmp program /proc/self/fd/4 && echo "the same"
            exec 5<>program
            ./program 0 2>/dev/null || echo "busy to run: $?"
            exec 5>&-
            ./program 0 && echo "runs at last"
            """)

        @Test("Thousands of files are open at once, and each has its own contents")
        func thousandsOfOpenFilesKeepTheirContents() throws {
            try MountedDirectory.with { mount in
                let count = try Script(
                    """
                    ulimit -n "$(ulimit -Hn)"
                    mkdir many
                    cd many
                    files=()
                    for ((i = 0; i < 2000; i++)); do
                        exec {file}<>"$i"
                        echo "$i" >&"$file"
                        files+=("$file")
                    done
                    for ((i = 0; i < 2000; i++)); do
                        read -r text <"/proc/self/fd/${files[i]}"
                        [[ $text == "$i" ]] || echo "file $i has '$text'"
                    done
                    cat ./* | wc --lines
                    """
                ).run(at: mount.path).text
                #expect(count == "2000\n")
                let counters = try mount.counters
                #expect((counters.read + counters.write == 0) == (try Lab.dataPath == .passthrough))
                try Program("rm").run("--recursive", mount.path + "/many")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("The disk blocks of a deleted open file are freed when it is closed")
        func theBlocksOfADeletedFileAreFreedWhenItIsClosed() throws {
            guard Self.isRoot else { return print("only root mounts a tmpfs: shown by the run as root") }
            var place = ""
            defer { Self.unmountBelow(place) }
            try MountedDirectory.with(prepare: { directory in
                place = directory
                try Program("mount").run("-t", "tmpfs", "-o", "size=8m,mode=755", "none", directory)
            }) { mount in
                for _ in 0..<3 {
                    let holder = try Script(
                        """
                        head -c 6291456 /dev/zero >file
                        exec 3<>file
                        rm file
                        head -c 4 <&3 | wc --bytes
                        read -r _
                        """
                    ).start(at: mount.path, input: .keyboard)
                    try eventually(within: .seconds(20), "a file without a name\n\(holder.errorText)") {
                        holder.text == "4\n"
                    }
                    #expect(try Self.freeKibibytes(of: mount.path) < 3000)
                    try holder.type("\n")
                    _ = try holder.wait(within: .seconds(10)).requireSuccess()
                    try eventually(within: .seconds(10), "the blocks of the file to come back") {
                        try Self.freeKibibytes(of: mount.path) > 7000
                    }
                }
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        private static func freeKibibytes(of directory: String) throws -> Int {
            let text = try Program("stat").run("--file-system", "--format=%f %S", directory).text
            let numbers = text.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
            guard numbers.count == 2 else { throw TestFailure("no figures in '\(text)'") }
            return numbers[0] * numbers[1] >> 10
        }

        private static func unmountBelow(_ directory: String) {
            do { _ = try Program("umount").attempt("--lazy", directory) } catch {
                print("\(directory): \(error)")
            }
        }

        private static var isRoot: Bool { geteuid() == 0 }
    }
}

/// A trace of the system calls by which a daemon registers files with the kernel and checks their privileges.
private final class Trace {
    /// The numbers of `FUSE_DEV_IOC_BACKING_OPEN` and `FUSE_DEV_IOC_BACKING_CLOSE` as strace prints them.
    static let register = "0x4010e501"
    static let giveBack = "0x4004e502"

    private let file: String
    private let tracer: RunningProgram

    init(of process: Int32) throws {
        file = try Lab.freshDirectory("trace") + "/calls"
        tracer = try Program("strace").start(
            "--follow-forks", "--const-print-style=raw", "--trace=ioctl,getxattr", "--output=\(file)",
            "--attach=\(process)")
        try eventually(within: .seconds(20), "strace to follow process \(process)\n\(tracer.errorText)") {
            if tracer.hasEnded { throw TestFailure("strace: \(tracer.errorText)") }
            return tracer.errorText.contains("attached")
        }
    }

    var text: String { FileContents.ofFile(file).map { String(decoding: $0, as: UTF8.self) } ?? "" }

    /// The number of traced calls with these words among their arguments.
    func count(_ words: String) -> Int { text.split(separator: "\n").count { $0.contains(words) } }

    /// Ends the tracer. The daemon continues without it.
    func end() throws {
        tracer.send(SIGINT)
        _ = try tracer.wait(within: .seconds(10))
    }
}
