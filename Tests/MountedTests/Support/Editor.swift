// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport

/// A headless Neovim with the plug-in. The test controls it over its own socket, as a second Neovim would.
///
/// This Neovim never saves by itself: it has no 'autowrite', no timer and no swap file.
struct Editor {
    let program: RunningProgram
    private let socket: String
    let mount: MountedDirectory

    var pid: Int32 { program.pid }

    /// Opens a file of the mount in Neovim and waits until Neovim presents the file.
    init(_ file: String, of mount: MountedDirectory, backupcopy: String = "auto") throws {
        self.mount = mount
        socket = try Lab.freshDirectory("editor") + "/socket"
        program = try Program("nvim").start(
            "--headless", "--clean", "--listen", socket,
            "--cmd", "let g:truce_command = '\(try Lab.variable("TRUCE_BINARY"))'",
            "--cmd", "set noswapfile backupcopy=\(backupcopy)",
            "--cmd", "set runtimepath^=\(Checkout.path("Scripts/nvim"))",
            mount.path + "/" + file)
        try eventually(within: .seconds(20), "Neovim to present \(file): \(program.errorText)") {
            try Self.isPresented(file, by: program.pid, in: mount)
        }
    }

    static func isPresented(_ file: String, by pid: Int32, in mount: MountedDirectory) throws -> Bool {
        let census = try TruceCommand.run("ps", "--json", mount.path).text
        return census.contains("\"pid\":\(pid)") && census.contains("\"path\":\"\(file)\"")
            && census.contains("\"messages\"")
    }

    /// Waits until Neovim has reported unsaved text and the daemon has received this report.
    static func waitUntilUnsaved(_ file: String, in mount: MountedDirectory) throws {
        try eventually(within: .seconds(10), "the daemon to hear of unsaved text in \(file)") {
            try TruceCommand.run("ps", mount.path).text.split(separator: "\n").contains {
                $0.contains("unsaved") && $0.hasSuffix("/\(file)")
            }
        }
    }

    /// Evaluates an expression of Vim script in Neovim, and returns its value.
    func value(of expression: String) throws -> String {
        // Neovim 0.7 prints the result to standard error, and later versions to standard output. The result has no line end.
        let outcome = try Program("nvim").run(
            "--server", socket, "--remote-expr", expression, within: .seconds(20))
        return (outcome.text + outcome.errorText).trimmingCharacters(in: .newlines)
    }

    /// Replaces the text of the first buffer, without saving.
    func type(_ text: String) throws {
        _ = try value(of: "nvim_buf_set_lines(1, 0, -1, v:true, split('\(text)', ';'))")
    }

    var text: String { get throws { try value(of: "join(nvim_buf_get_lines(1, 0, -1, v:true), ';')") } }
    var name: String { get throws { try value(of: "bufname(1)") } }
    var isModified: Bool { get throws { try value(of: "getbufvar(1, '&modified')") == "1" } }
    var isWritable: Bool {
        get throws { try value(of: "getbufvar(1, '&modifiable') && !getbufvar(1, '&readonly')") == "1" }
    }
    var state: String { get throws { try value(of: "getbufvar(1, 'truce_state', '')") } }
    var isLoaded: Bool { get throws { try value(of: "bufloaded(1)") == "1" } }
    var messages: String { get throws { try value(of: "execute('messages')") } }

    func end() throws { try program.end() }
}

/// The questions and events of a mount's presenters, from its journal.
struct PresenterExchange {
    /// The messages in order, such as `relinquishToWriter` and `didChange`, each with the program that caused it.
    let steps: [(kind: String, message: String, program: String)]

    /// Reads the messages of one presenter after the given step of the journal.
    init(_ status: MountStatus, with pid: Int32, since sequence: UInt64) {
        steps = status.journal.filter {
            $0.sequence > sequence && $0.actor?.pid == pid && ($0.step == "asked" || $0.step == "told")
        }.map { step in
            let words = step.detail.split(separator: " ").map(String.init)
            return (step.step, words.first ?? "", words.dropFirst(2).first ?? "")
        }
    }

    /// The messages about writers. Relinquishing to readers and reacquiring afterwards are left out.
    func aboutWriters() -> [String] {
        var isReaders = false
        var found: [String] = []
        for step in steps {
            if step.message == "relinquishToReader" || step.message == "save" {
                isReaders = true
            } else if isReaders, step.message == "reacquire" {
                isReaders = false
            } else {
                found.append(step.message)
            }
        }
        return found
    }
}

extension MountStatus {
    /// The number of the last step in the journal.
    var lastStep: UInt64 { journal.last?.sequence ?? 0 }
}
