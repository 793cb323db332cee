// SPDX-License-Identifier: Apache-2.0

/// The decoding of a log line. Members that a later release has added are ignored.
extension LogLine {
    private typealias Fault = JSONReader.Fault

    /// The members without which a line says nothing.
    private static let required = ["event", "id", "time", "nanoseconds", "cause"]

    /// A line without any member.
    private init() {
        (event, id, time, nanoseconds, cause) = (Event(rawValue: ""), "", "", 0, "")
    }

    /// Decodes one line of the log. Returns nil if a crash cut the line off, or if a later release wrote the line in another
    /// form.
    static func read(_ bytes: ArraySlice<UInt8>) -> LogLine? {
        var (reader, line) = (JSONReader(bytes), LogLine())
        var missing = (1 << required.count) - 1
        do throws(Fault) {
            try reader.object { (reader, name) throws(Fault) in
                if reader.takesNull() { return }
                if let place = required.firstIndex(of: name) { missing &= ~(1 << place) }
                try line.takeEvent(name, from: &reader)
            }
            try reader.finish()
        } catch {
            // The caller counts the lines that cannot be read, and reports their number.
            return nil
        }
        return missing == 0 ? line : nil
    }

    /// Reads a member that says what happened to the version, or any other member.
    private mutating func takeEvent(_ name: String, from reader: inout JSONReader) throws(Fault) {
        switch name {
        case "event": event = Event(rawValue: try reader.text())
        case "id": id = try reader.text()
        case "time": time = try reader.text()
        case "nanoseconds": nanoseconds = try reader.number()
        case "cause": cause = try reader.text()
        case "size": size = try reader.number()
        case "heldBy": heldBy = try reader.text()
        case "standing": standing = try reader.text()
        case "formerPath": formerPath = try reader.text()
        case "formerPathBytes": formerPathBytes = Bytes(try reader.base64())
        case "move": move = try reader.text()
        default: try takeFile(name, from: &reader)
        }
    }

    /// Reads a member that describes the document, or any other member.
    private mutating func takeFile(_ name: String, from reader: inout JSONReader) throws(Fault) {
        switch name {
        case "path": path = try reader.text()
        case "pathBytes": pathBytes = Bytes(try reader.base64())
        case "user": user = try reader.number()
        case "group": group = try reader.number()
        case "mode": mode = try reader.number()
        case "accessControlList": accessControlList = Bytes(try reader.base64())
        case "closed":
            var directories: [Directory] = []
            try reader.array { (reader) throws(Fault) in directories.append(try Directory(from: &reader)) }
            closed = directories
        case "method": method = try reader.text()
        case "device": device = try reader.number()
        case "inode": inode = try reader.number()
        default: try takeProvenance(name, from: &reader)
        }
    }

    /// Reads a member about the programs that have part in the version. Skips every other member.
    private mutating func takeProvenance(_ name: String, from reader: inout JSONReader) throws(Fault) {
        switch name {
        case "by": by = try reader.number()
        case "author": author = try Actor(from: &reader)
        case "saver": saver = try Actor(from: &reader)
        case "read": read = try reader.text()
        case "readNanoseconds": readNanoseconds = try reader.number()
        case "generation": generation = try reader.text()
        case "conflictCopy": conflictCopy = Bytes(try reader.base64())
        default: try reader.skip()
        }
    }
}

extension LogLine.Actor {
    fileprivate init(from reader: inout JSONReader) throws(JSONReader.Fault) {
        var (program, pid, user, run): (String?, Int32?, UInt32?, String?) = (nil, nil, nil, nil)
        try reader.object { (reader, name) throws(JSONReader.Fault) in
            if reader.takesNull() { return }
            switch name {
            case "program": program = try reader.text()
            case "pid": pid = try reader.number()
            case "user": user = try reader.number()
            case "run": run = try reader.text()
            default: try reader.skip()
            }
        }
        guard let program else { throw JSONReader.Fault() }
        self.init(VersionActor(program: program, process: pid, user: user, run: run))
    }
}

extension LogLine.Directory {
    fileprivate init(from reader: inout JSONReader) throws(JSONReader.Fault) {
        var (user, group, mode): (UInt32?, UInt32?, UInt32?) = (nil, nil, nil)
        var list: [UInt8]?
        try reader.object { (reader, name) throws(JSONReader.Fault) in
            if reader.takesNull() { return }
            switch name {
            case "user": user = try reader.number()
            case "group": group = try reader.number()
            case "mode": mode = try reader.number()
            case "accessControlList": list = try reader.base64()
            default: try reader.skip()
            }
        }
        guard let user, let group, let mode else { throw JSONReader.Fault() }
        self.init(FileRights(user: user, group: group, mode: mode, accessControlList: list))
    }
}
