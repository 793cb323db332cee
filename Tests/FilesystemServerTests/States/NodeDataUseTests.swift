// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import FilesystemServer
@testable import FuseBridge

@Suite("How the data of a node is read and written")
struct NodeDataUseTests {
    private let first = BackingID(rawValue: 1)
    private let second = BackingID(rawValue: 2)

    private func isBacking(_ route: DataRoute?, _ id: BackingID) -> Bool {
        if case .backing(let own) = route { own.rawValue == id.rawValue } else { false }
    }

    @Test("all handles of a node use the data path of the first handle, until the last handle is closed")
    func allHandlesUseTheFirstHandlesDataPath() {
        var use = NodeDataUse()
        #expect(use.enterInUse(mapping: false) == nil)
        #expect(use.enter(.daemon, mapping: true) != nil)
        if case .daemon = use.enter(.backing(first), mapping: true) {} else { Issue.record("another route") }
        #expect(use.opens == 2 && !use.hasMappers)
        #expect(use.leave(mapping: true) == false)
        #expect(use.route != nil)
        #expect(use.leave(mapping: true) == false)
        #expect(use.opens == 0 && use.route == nil)
    }

    @Test("a handle does not use a backing file that is not registered with its node")
    func aClosedBackingFileIsNotUsed() {
        var use = NodeDataUse()
        #expect(use.enter(.backing(first), mapping: false) == nil)
        #expect(use.opens == 0)
        #expect(use.offer(first, ownerChanges: 0).needless == nil)
        #expect(isBacking(use.enter(.backing(first), mapping: true), first))
        #expect(use.hasMappers)
        #expect(use.leave(mapping: true) == true)
    }

    @Test(
        "if two backing files are opened for a node at the same time, the second file is reported as unneeded"
    )
    func oneOfTwoBackingFilesIsClosed() {
        var use = NodeDataUse()
        _ = use.offer(first, ownerChanges: 0)
        let (kept, needless) = use.offer(second, ownerChanges: 0)
        #expect(kept.rawValue == 1 && needless?.rawValue == 2)
        #expect(use.retain(second)?.rawValue == 2)
    }

    @Test(
        "after a change of owner, open handles keep the backing file, and later opens need a new backing file"
    )
    func aChangeOfOwnerReplacesTheBackingFile() {
        var use = NodeDataUse()
        _ = use.offer(first, ownerChanges: 0)
        #expect(isBacking(use.enter(.backing(first), mapping: false), first))
        use.noteOwnerChange()
        #expect(use.usableBacking?.rawValue == 1)
        #expect(use.takeUnusedBacking(of: NodeReach()) == nil)
        _ = use.leave(mapping: false)
        #expect(use.usableBacking == nil)
        #expect(use.takeUnusedBacking(of: NodeReach())?.rawValue == 1)
        #expect(use.backingID == nil)
    }

    @Test("a backing file that was opened before a change of owner cannot be used after the change")
    func aBackingFileFromBeforeTheOwnerChangeIsUnusable() {
        var use = NodeDataUse()
        use.noteOwnerChange()
        #expect(use.offer(first, ownerChanges: 0).kept.rawValue == 1)
        #expect(use.usableBacking == nil)
    }

    @Test("an orphan keeps its backing file until the kernel forgets the inode")
    func anOrphanKeepsItsBackingFileUntilForgotten() {
        var (use, reach) = (NodeDataUse(), NodeReach())
        #expect(use.retain(first) == nil)
        reach.becomeOrphan()
        #expect(use.takeUnusedBacking(of: reach) == nil)
        _ = reach.forget()
        reach.becomeOrphan()
        reach.cancelOrphan()
        #expect(reach.isForgotten && !reach.isOrphan)
        #expect(use.takeUnusedBacking(of: reach)?.rawValue == 1)
    }
}
