// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import CoordinatedFilesystem

/// When a program takes so many documents away that none of them is in the middle of a save.
@Suite("Documents that are taken away in a row")
struct DeparturesTests {
    private let now = Instant(nanoseconds: 1)
    private let thread: Int32 = 100

    private func take(
        _ names: String..., from directory: NodeNumber = Stage.folder, in departures: inout Departures
    ) {
        for name in names { departures.took(Array(name.utf8), from: directory, by: thread, at: now) }
    }

    private func areMany(_ departures: Departures, at moment: Instant? = nil) -> Bool {
        departures.areMany(by: thread, from: Stage.folder, at: moment ?? now)
    }

    @Test("Three more documents are too many")
    func many() {
        var departures = Departures()
        take("a", "b", "c", in: &departures)
        #expect(!areMany(departures))
        take("d", in: &departures)
        #expect(areMany(departures))
        #expect(!departures.areMany(by: 101, from: Stage.folder, at: now))
        #expect(!areMany(departures, at: now + .seconds(3)))
    }

    @Test("Filling one of the names begins anew, and filling another one does not")
    func filling() {
        var departures = Departures()
        take("a", "b", "c", in: &departures)
        departures.filled(Array("other".utf8), in: Stage.folder, by: thread)
        take("d", in: &departures)
        #expect(areMany(departures))
        departures.filled(Array("d".utf8), in: Stage.folder, by: thread)
        #expect(!areMany(departures))
        take("e", "f", "g", in: &departures)
        #expect(!areMany(departures))
    }

    @Test("Helper files do not count")
    func helpers() {
        var departures = Departures()
        take("a", ".a.swp", ".b.swp", ".c.swp", ".d.swp", in: &departures)
        #expect(!areMany(departures))
    }

    @Test("What is taken from another directory begins anew")
    func elsewhere() {
        var departures = Departures()
        take("a", "b", "c", in: &departures)
        take("d", from: NodeNumber(2), in: &departures)
        take("e", in: &departures)
        #expect(!areMany(departures))
    }
}
