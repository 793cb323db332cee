// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem

/// Reads and changes extended attributes. Most are those of the file in the source. Two are provided by the daemon.
final class ExtendedAttributes: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let data: DataPlane
    private let events: DocumentEvents
    private let coordinator: RetryCoordinator
    private let attributeChanges: SetAttributes
    private let submounts: Submounts
    private let nodes: NodeTable
    private let places: PlaceRegistry
    private let sightings: Sightings

    init(
        _ context: MountContext, _ tree: FileTree, _ unseenOverwrites: UnseenOverwrites,
        _ sourceWatch: SourceWatch, _ data: DataPlane, _ events: DocumentEvents,
        _ coordinator: RetryCoordinator, _ attributeChanges: SetAttributes
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.data = data
        self.events = events
        self.coordinator = coordinator
        self.attributeChanges = attributeChanges
        submounts = context.submounts
        nodes = tree.nodes
        places = tree.places
        sightings = unseenOverwrites.sightings
    }

    /// The two attributes of the mount's root that contain the paths of the control sockets. They are not stored in any
    /// file.
    private static let socketAttribute = "user.truce.socket"
    private static let ownerSocketAttribute = "user.truce.socket.owner"
    private static let accessList = "system.posix_acl_access"

    func extendedAttribute(
        _ name: UnsafePointer<CChar>, of id: NodeID, capacity: Int, reply: consuming Reply
    ) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        if id == .root, Self.isServed(name) {
            guard let path = socketPath(name, for: reply.caller) else { return reply.fail(.noAttribute) }
            return answer(Array(path.utf8), capacity: capacity, reply: reply)
        }
        if strcmp(name, Generation.attribute) == 0 {
            guard node.kind == S_IFREG else { return reply.fail(.noAttribute) }
            do throws(Errno) {
                let generation = try sightings.generation(of: node).description
                return answer(Array(generation.utf8), capacity: capacity, reply: reply)
            } catch {
                return reply.fail(error)
            }
        }
        if strcmp(name, "security.capability") == 0, submounts.forbids(.nosuid, on: node.key.mount) {
            return reply.fail(.noAttribute)
        }
        do throws(Errno) {
            let descriptor = try node.descriptor()
            if capacity == 0 {
                let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                return reply.attributeSize(try descriptor.descriptor.extendedAttribute(name, into: none))
            }
            let value = try Self.filling(capacity) { (buffer) throws(Errno) in
                try descriptor.descriptor.extendedAttribute(name, into: buffer)
            }
            reply.bytes(value.span.bytes)
        } catch {
            reply.fail(error)
        }
    }

    private static func isServed(_ name: UnsafePointer<CChar>) -> Bool {
        strcmp(name, socketAttribute) == 0 || strcmp(name, ownerSocketAttribute) == 0
    }

    /// Returns the path of a control socket. A caller that cannot connect to the owner's socket does not get its path.
    private func socketPath(_ name: UnsafePointer<CChar>, for caller: Caller) -> String? {
        guard strcmp(name, Self.ownerSocketAttribute) == 0 else { return context.configuration.socketPath }
        return caller.user == 0 || caller.user == geteuid() ? context.configuration.ownerSocketPath : nil
    }

    func extendedAttributeNames(of id: NodeID, capacity: Int, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        do throws(Errno) {
            let descriptor = try node.descriptor()
            guard reply.caller.user == 0 else {
                let names = Self.visible(try Self.allNames(of: descriptor))
                return answer(names, capacity: capacity, reply: reply)
            }
            if capacity == 0 {
                let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                return reply.attributeSize(try descriptor.descriptor.extendedAttributeNames(into: none))
            }
            let names = try Self.filling(capacity) { (buffer) throws(Errno) in
                try descriptor.descriptor.extendedAttributeNames(into: buffer)
            }
            reply.bytes(names.span.bytes)
        } catch {
            reply.fail(error)
        }
    }

    /// The longest list of names that the kernel accepts, in bytes.
    private static let longestList = 65_536

    private static func allNames(of descriptor: SharedDescriptor) throws(Errno) -> [UInt8] {
        let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        guard try descriptor.descriptor.extendedAttributeNames(into: none) > 0 else { return [] }
        return try filling(longestList) { (buffer) throws(Errno) in
            try descriptor.descriptor.extendedAttributeNames(into: buffer)
        }
    }

    /// Leaves out the names that only root may see. The daemon itself asks for the list, so the file system below does
    /// not leave them out for other callers.
    private static func visible(_ names: [UInt8]) -> [UInt8] {
        let hidden = Array("trusted.".utf8)
        return names.split(separator: 0).filter { !$0.starts(with: hidden) }.flatMap { $0 + [0] }
    }

    func setExtendedAttribute(
        _ name: UnsafePointer<CChar>, of id: NodeID, to value: UnsafeRawBufferPointer, flags: Int32,
        reply: consuming Reply
    ) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        guard id != .root || !Self.isServed(name), strcmp(name, Generation.attribute) != 0 else {
            return reply.fail(.notPermitted)
        }
        let caller = reply.caller
        guard let reply = coordinator.retryIfRenamedOutOfBand(caller, fromFile: node, reply) else { return }
        coordinator.clearRetryMark(caller)
        do throws(Errno) {
            let isMark = strcmp(name, PackageDetection.attribute) == 0
            if isMark { try checkOwnership(of: node, caller) }
            if strcmp(name, Self.accessList) == 0 { try attributeChanges.reopenDescriptors(of: node) }
            sourceWatch.noteOwn(node, .attributes)
            try node.descriptor().descriptor.setExtendedAttribute(name, to: value, flags: flags)
            if strcmp(name, Self.accessList) == 0 { try data.stripGroup(of: node, listedBy: caller) }
            attributeChanges.reconsiderBypass(of: node)
            if isMark { places.reconsider(node) }
            events.noteChange(of: node, AccessTable.changingAttributes, byThread: caller.thread)
            reply.succeed()
        } catch {
            reply.fail(error)
        }
    }

    func removeExtendedAttribute(_ name: UnsafePointer<CChar>, of id: NodeID, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        let caller = reply.caller
        // Before the kernel truncates a file or changes its owner, it removes this attribute by a request of its own. Both
        // requests together have only one retry, which is left for the second request.
        let isOwnStep = strcmp(name, "security.capability") == 0
        guard
            let reply = coordinator.retryIfRenamedOutOfBand(caller, fromFile: node, unless: isOwnStep, reply)
        else {
            return
        }
        if !isOwnStep { coordinator.clearRetryMark(caller) }
        do throws(Errno) {
            let isMark = strcmp(name, PackageDetection.attribute) == 0
            if isMark { try checkOwnership(of: node, caller) }
            sourceWatch.noteOwn(node, .attributes)
            try node.descriptor().descriptor.removeExtendedAttribute(name)
            attributeChanges.reconsiderBypass(of: node)
            if isMark { places.reconsider(node) }
            events.noteChange(of: node, AccessTable.changingAttributes, byThread: caller.thread)
            reply.succeed()
        } catch {
            reply.fail(error)
        }
    }

    /// Throws an error unless the caller is root or the file's owner. The attribute that marks a package affects all
    /// users of the directory.
    private func checkOwnership(of node: Node, _ caller: Caller) throws(Errno) {
        let owner = try node.descriptor().descriptor.status().user
        guard caller.user == 0 || caller.user == owner else { throw .notPermitted }
    }

    private func answer(_ value: [UInt8], capacity: Int, reply: consuming Reply) {
        if capacity == 0 { return reply.attributeSize(value.count) }
        guard value.count <= capacity else { return reply.fail(.outOfRange) }
        reply.bytes(value.span.bytes)
    }

    private static func filling(
        _ capacity: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Int
    ) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: capacity)
        let result: Result<Int, Errno> = bytes.withUnsafeMutableBytes { buffer in
            do throws(Errno) { return .success(try body(buffer)) } catch { return .failure(error) }
        }
        return Array(bytes[..<(try result.get())])
    }
}
