// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// What the daemon remembers of a document that several programs use: its generation, and which anchors have seen which
/// generation.
///
/// Invariants:
/// - Generations grow: `read`, `prior` and `own` of a sighting are at most `generation`.
/// - Each anchor has at most one sighting.
/// - Each base belongs to a generation that a sighting contains.
package struct RememberedDocument: Sendable {
    /// A generation that an anchor has seen.
    package struct Seen: Hashable, Comparable, Sendable {
        /// The number of the generation; 0 if there is none.
        package var number: UInt64 = 0
        /// The time at which the generation was made, in nanoseconds since 1970.
        package var time: Int64 = 0

        package static func < (one: Self, other: Self) -> Bool { one.number < other.number }
    }

    /// What one anchor has seen of the document.
    package struct Sighting: Sendable {
        package let anchor: Anchor
        /// The latest generation that the anchor has read, and since when.
        package fileprivate(set) var read = Seen()
        fileprivate var readAt = Instant(nanoseconds: 0)
        /// The generation that the anchor had seen before `read`.
        fileprivate var prior = Seen()
        /// The latest generation that the anchor has written.
        package fileprivate(set) var own = Seen()
        /// Whether the anchor's own process has written `own`.
        fileprivate var ownIsKnown = false
        /// Whether the anchor presents the document.
        fileprivate var isPresenter = false

        fileprivate var latest: Seen { max(read, own) }
        fileprivate func refers(to generation: UInt64) -> Bool {
            [read, prior, own].contains { $0.number == generation }
        }
        /// The order in which sightings are dropped; the smallest value first.
        fileprivate var worth: (Int, Seen) {
            let rank = isPresenter ? 2 : anchor.isBackground ? 0 : own.number != 0 ? 2 : 1
            return (rank, latest)
        }
    }

    /// What a program knows of the present generation, when it is about to replace it.
    package enum View: Hashable, Sendable {
        /// The program has read or written the present generation.
        case seen
        /// The program has seen no generation, so it writes independently of the contents.
        case stranger
        /// The program has seen only this older generation.
        case unseen(since: Seen)
    }

    private struct Base: Sendable {
        let generation: UInt64
        let bytes: [UInt8]
    }

    private struct Writer: Sendable {
        let handle: UInt64
        let opener: Opener
    }

    /// If a program reads a document to back it up, it replaces the document within this time.
    package static let backupTakes = TimeSpan.seconds(2)
    /// The usual and the greatest number of sightings. Only sightings of living writers and presenters exceed the usual number.
    package static let (usualSightings, mostSightings) = (16, 64)
    private static let mostBases = 8

    package private(set) var generation: UInt64
    /// The anchor that has made the present generation; nil if it is not known.
    package private(set) var author: Anchor?
    /// The size and time of modification at the present generation.
    package private(set) var stamp: Stamp
    package private(set) var sightings: [Sighting] = []
    private var bases: [Base] = []
    /// The programs that have the document open to write.
    private var writers: [Writer] = []
    /// The possible unseen overwrites that are not compared yet.
    package var suspicions: [Suspicion] = []
    /// Whether the contents were changed, and the size and the time of modification are perhaps as before. Then a generation that
    /// is made of them may be that of other contents.
    package private(set) var hasHiddenChange = false
    private var isChanged = false
    /// The number of the last use, for the choice of the documents that are dropped.
    package var used: UInt64 = 0

    package init(generation: UInt64, author: Anchor?, stamp: Stamp) {
        self.generation = generation
        self.author = author
        self.stamp = stamp
    }

    /// About how many bytes of memory the document takes besides its place in the table, without its bases. Documents can share
    /// their anchors, but each sighting counts as if its anchor was its own.
    package var size: Int {
        guard sightings.capacity > 0 else { return 0 }
        return Self.arrayHeader + sightings.capacity * MemoryLayout<Sighting>.stride
            + sightings.count * Self.anchorSize
    }
    /// The bytes of an anchor with the name of its program, and of the header of an array; each as the allocator rounds them up.
    private static let (anchorSize, arrayHeader) = (176, 48)
    /// The bytes of the known contents, also of those that suspicions hold.
    package var baseSize: Int {
        bases.reduce(0) { $0 + $1.bytes.count } + suspicions.reduce(0) { $0 + $1.baseSize }
    }

    /// Notes that an anchor reads the present generation. `isOwn`: whether the anchor's own process reads, and no child process.
    /// Only then may it read to make a backup.
    package mutating func noteRead(by anchor: Anchor, at moment: Instant, isOwn: Bool = true) {
        change(anchor) { sighting, present in
            // A second read of the same generation changes nothing. Otherwise the read before a save would seem to be the
            // only read of this generation.
            guard sighting.read.number != present.number else { return }
            sighting.prior = isOwn ? sighting.latest : present
            sighting.read = present
            sighting.readAt = moment
        }
    }

    /// Notes that an anchor reads an older generation: the contents of a file that was the document's until a moment ago.
    package mutating func noteFormerRead(by anchor: Anchor, of former: Seen, at moment: Instant) {
        change(anchor) { sighting, _ in
            guard sighting.read < former else { return }
            sighting.prior = sighting.latest
            sighting.read = former
            sighting.readAt = moment
        }
    }

    /// The present generation.
    package var present: Seen {
        let modified = stamp.modified
        return Seen(
            number: generation, time: modified.seconds &* 1_000_000_000 &+ Int64(modified.nanoseconds))
    }

    /// Notes that a program has the document open to write.
    package mutating func noteWriter(_ opener: Opener, by handle: UInt64) {
        guard !writers.contains(where: { $0.handle == handle }) else { return }
        writers.append(Writer(handle: handle, opener: opener))
    }

    /// The program of a handle that has the document open to write, if it was noted.
    package func writer(_ handle: UInt64) -> Opener? { writers.first { $0.handle == handle }?.opener }

    /// Notes that a writer has closed the document. Returns the writer, if it was noted.
    package mutating func removeWriter(_ handle: UInt64) -> Opener? {
        guard let index = writers.firstIndex(where: { $0.handle == handle }) else { return nil }
        return writers.remove(at: index).opener
    }

    package var hasWriters: Bool { !writers.isEmpty }
    /// Whether another handle than this one has the document open to write.
    package func hasWriters(besides handle: UInt64?) -> Bool { writers.contains { $0.handle != handle } }
    /// Whether a program has the document open to write.
    package func isWritten(by anchor: Anchor) -> Bool {
        writers.contains { $0.opener.anchor.identity == anchor.identity }
    }
    /// Exchanges the writers of two documents, because the documents have exchanged their files.
    package mutating func exchangeWriters(with other: inout Self?) {
        let own = writers
        writers = other?.writers ?? []
        other?.writers = own
    }
    /// Forgets the writers, because the document has another file from now on. They write to the former file.
    package mutating func forgetWriters() { writers = [] }
    /// The program that has written since the last generation, as far as only one program could have.
    package var onlyWriter: Opener? {
        guard let first = writers.first?.opener else { return nil }
        return writers.allSatisfy { $0.opener.anchor.identity == first.anchor.identity } ? first : nil
    }

    /// Gives the document a new generation. `opener` has made it; nil if that is not known.
    package mutating func raise(to number: UInt64, by opener: Opener?, as stamp: Stamp) {
        if number != generation {
            isChanged = true
            if self.stamp.hasSameContents(as: stamp) { hasHiddenChange = true }
        }
        generation = number
        author = opener?.anchor
        self.stamp = stamp
        if let opener {
            change(opener.anchor) { sighting, present in
                sighting.own = present
                sighting.ownIsKnown = opener.isAnchor
            }
        }
        dropBases()
    }

    /// Notes new times of the file, which were set without a change of its contents.
    package mutating func restamp(_ stamp: Stamp) {
        if isChanged { hasHiddenChange = true }
        self.stamp = stamp
    }

    /// Notes that an anchor presents the document. This says nothing about what the anchor has read.
    package mutating func notePresenter(_ anchor: Anchor) {
        change(anchor) { sighting, _ in sighting.isPresenter = true }
    }

    /// Returns what a program knows of the present generation.
    package func view(of opener: Opener, at now: Instant) -> View {
        let anchor = opener.anchor
        if author?.identity == anchor.identity { return .seen }
        guard let sighting = sighting(of: anchor) else { return .stranger }
        var read = sighting.read
        if anchor.readsToBackUp, read.number == generation, sighting.prior.number != 0,
            now.since(sighting.readAt) < Self.backupTakes
        {
            read = sighting.prior
        }
        if read.number == generation || sighting.own.number == generation { return .seen }
        let older = sighting.ownIsKnown ? max(read, sighting.own) : read
        return older.number == 0 ? .stranger : .unseen(since: older)
    }

    package func sighting(of anchor: Anchor) -> Sighting? {
        sightings.first { $0.anchor.identity == anchor.identity }
    }

    /// The anchors besides this one that have the present generation before them. They may later save over the next one.
    package func holders(besides anchor: Anchor?) -> [Anchor] {
        sightings.filter { $0.latest.number == generation && $0.anchor.identity != anchor?.identity }.map(
            \.anchor)
    }

    /// Whether the contents of the present generation are known.
    package var hasBase: Bool { bases.contains { $0.generation == generation } }
    package func base(of generation: UInt64) -> [UInt8]? {
        bases.first { $0.generation == generation }?.bytes
    }
    /// The contents that an anchor has written since it has seen this generation; nil if they are not known.
    package func written(by anchor: Anchor, since generation: UInt64) -> [UInt8]? {
        guard let own = sighting(of: anchor)?.own.number, own > generation else { return nil }
        return base(of: own)
    }
    /// Notes the contents of the present generation, before it is replaced.
    package mutating func noteBase(_ bytes: [UInt8]) {
        guard !hasBase else { return }
        if bases.count >= Self.mostBases {
            // The base of the next save of a program stays, as long as there is another one.
            let latest = Set(sightings.map(\.latest.number))
            bases.remove(at: bases.firstIndex { !latest.contains($0.generation) } ?? 0)
        }
        bases.append(Base(generation: generation, bytes: bytes))
    }
    package mutating func forgetBases() {
        bases = []
        for index in suspicions.indices { suspicions[index].forgetBase() }
    }

    /// Whether the next sighting needs room, because there are as many sightings as usual.
    package func needsRoom(for anchor: Anchor) -> Bool {
        sightings.count >= Self.usualSightings && sighting(of: anchor) == nil
    }

    /// Drops sightings: first those of ended anchors, then those of background programs, then those of mere readers. A living
    /// writer or presenter stays, unless there are very many.
    package mutating func makeRoom(ended: (Anchor) -> Bool) {
        let writing = writers.map(\.opener.anchor.identity)
        sightings.removeAll { ended($0.anchor) && !writing.contains($0.anchor.identity) }
        while sightings.count >= Self.usualSightings,
            let least = sightings.indices.min(by: { sightings[$0].worth < sightings[$1].worth }),
            sightings[least].worth.0 < 2 || sightings.count >= Self.mostSightings
        {
            sightings.remove(at: least)
        }
        dropBases()
    }

    private mutating func change(_ anchor: Anchor, _ body: (inout Sighting, Seen) -> Void) {
        let present = present
        if let index = sightings.firstIndex(where: { $0.anchor.identity == anchor.identity }) {
            return body(&sightings[index], present)
        }
        var sighting = Sighting(anchor: anchor)
        body(&sighting, present)
        sightings.append(sighting)
    }

    private mutating func dropBases() {
        guard !bases.isEmpty else { return }
        let (generation, sightings) = (generation, sightings)
        bases.removeAll { base in
            base.generation != generation && !sightings.contains { $0.refers(to: base.generation) }
        }
    }
}
