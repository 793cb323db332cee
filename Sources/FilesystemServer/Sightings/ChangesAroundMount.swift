// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem

extension Sightings {
    /// Called when a file was changed around the mount. The programs that have read it before have not seen the new contents
    /// (D277).
    func noteOutOfBandChange(of node: Node) {
        let (wasRemembered, notes) = (node.isRemembered, node.sightings)
        guard
            wasRemembered
                || notes.hasNotes && notes.others(than: 0).contains(where: ProcessInspection.exists),
            let status = node.presentStatus, status.isRegularFile, remember(node, Stamp(status))
        else { return }
        guard !wasRemembered else {
            change(node) { document, next in document.refresh(Stamp(status), next) }
            return
        }
        // A program that has opened the file since then has read the new contents.
        let moment = Engine.now.nanoseconds - min(status.age, Engine.now.nanoseconds)
        let later = notes.readers.filter { NodeSightings.instant(of: $0.moment).nanoseconds > moment }
            .compactMap { openers.opener(process: $0.process) }
        change(node) { document, next in
            document.raise(to: next(), by: nil, as: Stamp(status))
            for opener in later { document.noteRead(by: opener.anchor, at: Instant(nanoseconds: moment)) }
        }
    }
}

extension FileStatus {
    /// How long ago the contents or attributes were last changed, in nanoseconds.
    fileprivate var age: UInt64 {
        let moment = changed.seconds &* 1_000_000_000 &+ Int64(changed.nanoseconds)
        return UInt64(clamping: Int64(WallClock.nanoseconds()) &- moment)
    }
}
