// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A file that a known process has made, its maker.
struct CreatedFile: Sendable {
    let node: NodeNumber
    var directory: NodeNumber
    var name: [UInt8]
    let saver: SavingProcess
    /// The time at which the file was last made, renamed, or closed by a writer.
    var used: Instant
    /// Whether the maker has ended.
    var isMakerGone = false

    /// Returns whether the file may be part of a save by a process.
    ///
    /// The age of the file does not matter while the maker lives: a swap file stays for the whole session of an editor.
    /// After the maker's end, only a sibling of the maker can finish the save, and only soon.
    func isEvidence(for other: SavingProcess, at now: Instant) -> Bool {
        guard saver.isSameSave(as: other) else { return false }
        return !isMakerGone || isFresh(at: now)
    }

    /// Returns whether the file may be part of a save of a given document by a process.
    ///
    /// The name of a temporary file may fit any document in the directory, and many programs leave such a file there for
    /// long. So the file must be new, or its name must contain the document's name.
    func isEvidence(ofSaving document: [UInt8], by other: SavingProcess, at now: Instant) -> Bool {
        guard isEvidence(for: other, at: now) else { return false }
        return isFresh(at: now) || HelperFileName.documentsSaved(by: name).contains(document)
    }

    private func isFresh(at now: Instant) -> Bool { now.since(used) <= SaveLimits.siblingGrace }
}

/// The temporary files and swap files of one directory, by the documents that their names contain.
///
/// There is an index because a program may make and unlink thousands of files in one directory. A search would compare
/// each new file with all others.
private struct HelperFiles: Sendable {
    private var byDocument: [[UInt8]: [NodeNumber]] = [:]
    private var ofAnyDocument: [NodeNumber] = []

    var isEmpty: Bool { byDocument.isEmpty && ofAnyDocument.isEmpty }

    mutating func insert(_ node: NodeNumber, _ name: [UInt8]) {
        for document in HelperFileName.documentsSaved(by: name) {
            byDocument[document, default: []].append(node)
        }
        if HelperFileName.isAnonymousTemp(name) { ofAnyDocument.append(node) }
    }

    mutating func remove(_ node: NodeNumber, _ name: [UInt8]) {
        for document in HelperFileName.documentsSaved(by: name) {
            byDocument[document]?.removeAll { $0 == node }
            if byDocument[document]?.isEmpty == true { byDocument[document] = nil }
        }
        ofAnyDocument.removeAll { $0 == node }
    }

    func nodes(for document: [UInt8]) -> [NodeNumber] { (byDocument[document] ?? []) + ofAnyDocument }
}

/// The files with known makers. Above the limit the oldest file is forgotten.
struct CreatedFiles: Sendable {
    private var files: [NodeNumber: CreatedFile] = [:]
    private var directories: [NodeNumber: HelperFiles] = [:]
    private var makers: [ProcessID: Set<NodeNumber>] = [:]
    /// The files in the order in which they were made, from the index `head` on. Files that are gone are skipped.
    private var order: [NodeNumber] = []
    private var head = 0

    var count: Int { files.count }

    subscript(node: NodeNumber) -> CreatedFile? { files[node] }

    /// Returns the remembered files that may have the unsaved or next contents of a document.
    func helperFiles(of document: [UInt8], in directory: NodeNumber) -> some Sequence<CreatedFile> {
        (directories[directory]?.nodes(for: document) ?? []).lazy.compactMap { files[$0] }
    }

    mutating func insert(_ file: CreatedFile) {
        remove(file.node)
        while files.count >= SaveLimits.rememberedFiles { remove(order[head]) }
        files[file.node] = file
        directories[file.directory, default: HelperFiles()].insert(file.node, file.name)
        makers[file.saver.process, default: []].insert(file.node)
        order.append(file.node)
    }

    mutating func update(_ node: NodeNumber, _ change: (inout CreatedFile) -> Void) {
        guard let index = files.index(forKey: node) else { return }
        change(&files.values[index])
    }

    mutating func move(_ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, at now: Instant) {
        guard let former = files[node] else { return }
        unlist(former)
        directories[directory, default: HelperFiles()].insert(node, name)
        update(node) { file in (file.name, file.directory, file.used) = (name, directory, now) }
    }

    mutating func makerExited(_ process: ProcessID) {
        for node in makers.removeValue(forKey: process) ?? [] {
            update(node) { $0.isMakerGone = true }
        }
    }

    mutating func remove(_ node: NodeNumber) {
        if let file = files.removeValue(forKey: node) {
            unlist(file)
            makers[file.saver.process]?.remove(node)
            if makers[file.saver.process]?.isEmpty == true { makers[file.saver.process] = nil }
        }
        while head < order.count, files[order[head]] == nil { head += 1 }
        compact()
    }

    private mutating func unlist(_ file: CreatedFile) {
        directories[file.directory]?.remove(file.node, file.name)
        if directories[file.directory]?.isEmpty == true { directories[file.directory] = nil }
    }

    /// Removes the numbers of files that are gone from `order`. Otherwise they would pile up behind a swap file that
    /// stays.
    private mutating func compact() {
        guard order.count > 2 * SaveLimits.rememberedFiles else { return }
        order = order[head...].filter { files[$0] != nil }
        head = 0
    }
}
