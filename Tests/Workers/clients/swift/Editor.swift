// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A client of Truce that behaves like an editor of one file, without a screen.
///
///     SwiftClient MOUNT FILE FOLDER
///
/// The client has unsaved text for MOUNT/FILE, and saves it when another program wants to read the file. After another program
/// has changed the file, it writes the number of lines to FILE.count. It ends when a new file appears in MOUNT/FOLDER.
@main struct Editor {
    let mount: String
    let file: String
    var client: Client
    var presenter: Any = 0

    static func main() throws {
        let words = CommandLine.arguments
        var editor = Editor(mount: words[1], file: words[2], client: try Client(mount: words[1]))
        try editor.present(watching: words[3])
        while try editor.goOn() {}
    }

    mutating func present(watching folder: String) throws {
        var unsaved: String? = "unsaved words of Swift\n"
        var hasChanged = false
        client.listeners["presenter/didChange"] = { hasChanged = true }
        client.handlers["presenter/save"] = { [mount] request in
            guard let text = unsaved else { return }
            if hasChanged { throw Client.Failure(message: "others have written the file since") }
            try text.write(to: Self.place(request, in: mount), atomically: false, encoding: .utf8)
            unsaved = nil
            Self.say("saved for \(Self.program(request))")
        }
        let result = try client.call(
            "presenter/register", ["path": file, "messages": ["save", "didChange"]])
        presenter = result["presenter"] ?? 0
        _ = try client.call("events/subscribe", ["path": folder])
        Self.say("presenting \(file)")
    }

    /// Handles the next notice. Returns false if it says that a file has appeared in the folder.
    mutating func goOn() throws -> Bool {
        let (method, parameters) = try client.notice()
        if method == "presenter/didChange" {
            Self.say("changed by \(Self.program(parameters))")
            try count()
            Self.say("counted the lines")
        } else if method == "events/event", parameters["kind"] as? String == "appeared" {
            Self.say("\(parameters["path"] ?? "it") appeared by \(Self.program(parameters))")
            return false
        }
        return true
    }

    mutating func count() throws {
        let intents: [Client.Message] = [
            ["path": file, "access": "read", "options": ["withoutChanges"]],
            ["path": file + ".count", "access": "forReplacing"],
        ]
        let access = try client.call("access/begin", ["presenter": presenter, "intents": intents])
        // The reply contains the present names, because a file may have been renamed while the access waited.
        let places = (access["intents"] as? [Client.Message] ?? []).map { Self.place($0, in: mount) }
        let lines = try String(contentsOf: places[0], encoding: .utf8).split(separator: "\n")
        try "\(lines.count)\n".write(to: places[1], atomically: false, encoding: .utf8)
        _ = try client.call("access/end", ["access": access["access"] ?? 0])
    }

    static func place(_ message: Client.Message, in mount: String) -> URL {
        URL(fileURLWithPath: "\(mount)/\(message["path"] ?? "")")
    }

    static func program(_ message: Client.Message) -> String {
        (message["cause"] as? Client.Message)?["program"] as? String ?? "nobody"
    }

    static func say(_ words: String) {
        print(words)
        fflush(nil)
    }
}
