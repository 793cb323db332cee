// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension Mounted {
    /// A name that was moved away is free for whatever is no file, as in a directory that is not mounted (D126).
    @Suite struct VacatedNames {
        @Test(
            "The name a backup was made of is taken by another program, which is told of no error",
            arguments: ["mkdir", "mkfifo", "ln -s text", "ln other"])
        func shell(maker: String) throws {
            let prepare = { (source: String) in try Contents.write("other", to: source + "/other") }
            try MountedDirectory.with(prepare: prepare) { mount in
                try Script("for n in 1 2 3 4 5; do echo text >f$n; mv f$n f$n.bak && $1 f$n; done")
                    .run(maker, at: mount.path)
                checkForced(try mount.status())
            }
        }

        @Test(
            "The same while whoever made the backup is still there",
            arguments: ["mkdir", "mkfifo", "symlink", "link", "bind"])
        func living(maker: String) throws {
            let prepare = { (source: String) in
                try Contents.write("old", to: source + "/document")
                try Contents.write("other", to: source + "/other")
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (mount.path + "/document", try Actor(), try Actor())
                try one.must("rename", document, document + ".bak")
                let names = maker == "link" ? [mount.path + "/other", document] : [document]
                let (answer, took) = try timed { try two.ask([maker] + names) }
                #expect(answer == "ok")
                print("\(maker) at a vacated name took \(took)")
                #expect(took < .seconds(10))
                #expect(try one.ask("mkdir", document) == "EEXIST")
                checkForced(try mount.status())
            }
        }

        @Test("Whoever reads the document waits for it, and whoever links from it is told what is there")
        func others() throws {
            let prepare = { (source: String) in try Contents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (mount.path + "/document", try Actor(), try Actor())
                try one.must("rename", document, document + "~")
                let link = try Actor().ask("link", document, mount.path + "/link")
                #expect(link == "ENOENT")
                try two.tell(["read", document])
                try eventually(within: .seconds(10), "the reader to wait") {
                    try mount.counters.bounced > 0
                }
                try one.must("put", document, "new")
                #expect(try two.answer() == "ok new")
                checkForced(try mount.status())
            }
        }
    }
}
