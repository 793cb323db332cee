// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// The daemon releases memory and limits its descriptors, however many files exist or are open.
extension MountTests {
    @Suite struct ManyFilesTests {
        private static let worker = Checkout.path("Tests/Workers/many-files")
        /// The memory in KiB by which the daemon may have grown when the kernel has forgotten all files.
        private static let leftOver = 16 << 10
        private static var isRoot: Bool { geteuid() == 0 }

        @Test("The daemon frees its memory when the kernel forgets many files")
        func theDaemonFreesMemoryWhenFilesAreForgotten() throws {
            guard try Lab.dataPath == .daemon else { return print("shown where the daemon moves the data") }
            let count = try Lab.number("TRUCE_FILES", default: 200_000)
            let filesystem = try count > 1_000_000 ? LoopFilesystem(inodes: count + count / 50) : nil
            defer { withExtendedLifetime(filesystem) {} }
            let mount = try MountedDirectory(in: filesystem?.path)
            do {
                let (_, making) = try timed {
                    try Program("python3").run(
                        Self.worker, "make", mount.path, "\(count)", within: .seconds(1800))
                }
                print("\(count) files made below in \(making)")
                try mount.mount()
                try visit(mount, count)
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }

        @Test("The kernel's table of the daemon's descriptors does not grow while 3,000 files are opened")
        func theTableOfTheDaemonsDescriptorsDoesNotGrow() throws {
            let files = { try Script("mkdir \"$1\"/some; cd \"$1\"/some; touch {1..3000}").run($0) }
            try MountedDirectory.with(prepare: { _ = try files($0) }) { mount in
                func size() throws -> String? { try ProcessStatus(of: mount.daemonPID)?["FDSize"] }
                let (before, few) = (try size(), try Self.descriptors(of: mount.daemonPID))
                try Script("cat \"$1\"/some/*").run(mount.path)
                let (after, many) = (try size(), try Self.descriptors(of: mount.daemonPID))
                print("room for \(after ?? "") descriptors: \(few), and then \(many)")
                #expect(before == after && before != nil)
                #expect(many > few + 100)
            }
        }

        private func visit(_ mount: MountedDirectory, _ count: Int) throws {
            let daemon = try mount.daemonPID
            try Script("ls -l \"$1\" | wc -l").run(mount.path)
            let before = try Self.memory(of: daemon)
            let (found, walking) = try timed {
                try Script("find \"$1\" -type f -size 0 | wc -l").run(mount.path, within: .seconds(3600)).text
            }
            #expect(found == "\(count)\n")
            let walked = try Self.memory(of: daemon)
            let opened = try Program("python3").run(
                Self.worker, "open", mount.path, "100", within: .seconds(3600)
            ).text
            #expect(opened == "\(count / 100)\n")
            let peak = try Self.memory(of: daemon)
            let descriptors = try Self.descriptors(of: daemon)
            let each = (walked - before) * 1024 / count
            print(
                """
                \(count) files walked in \(walking), \(count / 100) opened: \(before) KiB before, \(peak) KiB then, \(each) bytes for each \
                file known, \(descriptors) descriptors
                """)
            #expect(descriptors < 17_000)
            guard Self.isRoot else {
                return print("only root can make the kernel forget: shown by the run as root")
            }
            var left = peak
            let took = try eventually(within: .seconds(120), "the memory to come back to \(before) KiB") {
                // With each call, the kernel forgets the files that were not used since the previous call.
                try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run(within: .seconds(120))
                left = try Self.memory(of: daemon)
                return left < before + Self.leftOver
            }
            print("forgotten in \(took): \(left) KiB")
            checkForcedSteps(try mount.status())
        }

        @Test(
            "A daemon with few descriptors can serve programs that have more files open than the daemon has descriptors",
            arguments: [1024, 256])
        func programsMayOpenMoreFilesThanTheDaemonHasDescriptors(limit: Int) throws {
            let mount = try MountedDirectory(["wait=15s"])
            do {
                try Program("mkdir").run(mount.path + "/held", mount.path + "/others")
                try Program("python3").run(Self.worker, "make", mount.path + "/others", "20000")
                try mount.mount(descriptors: limit)
                // A user's daemon can reach a file without names only by an open descriptor, so the number of such files is
                // limited.
                let deleted = Self.isRoot ? 1000 : limit / 8
                let holder = try Program("python3").start(
                    Self.worker, "hold", mount.path + "/held", "3000", "\(deleted)", "300", input: .keyboard)
                try eventually(within: .seconds(60), "3000 open files\n\(holder.errorText)") {
                    if holder.hasEnded { throw TestFailure("the holder ended: \(holder.errorText)") }
                    return holder.text.hasPrefix("ready")
                }
                let held = try Self.descriptors(of: try mount.daemonPID)
                #expect(try Script("find \"$1\" -type f -size 0 | wc -l").run(mount.path).text == "20900\n")
                try Program("python3").run(Self.worker, "open", mount.path + "/others", "20")
                let open = try Self.descriptors(of: try mount.daemonPID)
                print(
                    "of \(limit) descriptors \(held) are open with 3000 files held, \(open) after all were looked at"
                )
                holder.endInput()
                let outcome = try holder.wait(within: .seconds(60))
                #expect(outcome.text.hasSuffix("all there\n"), "\(outcome.errorText)")
                #expect(open < limit)
                checkForcedSteps(try mount.status())
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }

        private static func memory(of process: Int32) throws -> Int {
            let text = ProcessStatus(of: process)?["RssAnon"] ?? ""
            guard let size = Int(text.prefix { $0.isNumber }) else {
                throw TestFailure("no RssAnon of \(process)")
            }
            return size
        }

        private static func descriptors(of process: Int32) throws -> Int {
            let listed = try Script("set -- /proc/$1/fd/*; echo $#").run("\(process)").text
            return Int(listed.dropLast()) ?? 0
        }
    }
}
