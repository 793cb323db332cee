// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A file of which the daemon knows the process that made it (the maker).
struct CreatedFile: Sendable {
    let node: NodeNumber
    var directory: NodeNumber
    var name: [UInt8]
    let saver: SavingProcess
    /// The time at which the file was made, renamed, or closed by a writer, whichever was last.
    var used: Instant
    /// Whether the maker has ended.
    var isMakerGone = false

    /// Returns whether the file can be part of a save by the process `other`.
    ///
    /// While the maker lives, the file's age does not matter: an editor keeps a swap file until it ends. After the
    /// maker's end, only a sibling of the maker can finish the save, within a few seconds.
    func isEvidence(for other: SavingProcess, at now: Instant) -> Bool {
        guard saver.isSameSave(as: other) else { return false }
        return !isMakerGone || isFresh(at: now)
    }

    /// Returns whether the file can be part of a save of this document by the process `other`.
    ///
    /// The name of a temporary file may fit any document in the directory, and many programs leave such files behind.
    /// So the file must be new, or its name must contain the document's name.
    func isEvidence(ofSaving document: [UInt8], by other: SavingProcess, at now: Instant) -> Bool {
        guard isEvidence(for: other, at: now) else { return false }
        return isFresh(at: now) || HelperFileName.documentsSaved(by: name).contains(document)
    }

    private func isFresh(at now: Instant) -> Bool { now.since(used) <= SaveLimits.siblingGrace }
}

/// The temporary files and swap files of one directory, indexed by the document names that their names contain.
///
/// A program may make and unlink thousands of files in a directory. Without the index, each new file would have to be
/// compared with all of them.
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

/// The files with a known maker. If there are too many, the oldest file is forgotten.
struct CreatedFiles: Sendable {
    private var files: [NodeNumber: CreatedFile] = [:]
    private var directories: [NodeNumber: HelperFiles] = [:]
    private var makers: [ProcessID: Set<NodeNumber>] = [:]
    /// The files in the order in which they were made. The list begins at the index `head`. It may contain files that
    /// are gone.
    private var order: [NodeNumber] = []
    private var head = 0

    var count: Int { files.count }

    subscript(node: NodeNumber) -> CreatedFile? { files[node] }

    /// Returns the known files in a directory that may have the unsaved contents or the next contents of a document.
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

    /// Removes from `order` the numbers of files that are gone. An old swap file keeps `head` where it is, so the list would
    /// otherwise grow for ever.
    private mutating func compact() {
        guard order.count > 2 * SaveLimits.rememberedFiles else { return }
        order = order[head...].filter { files[$0] != nil }
        head = 0
    }
}
