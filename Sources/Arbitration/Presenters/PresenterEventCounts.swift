// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The number of events and questions that the presenters of each guest have received since the numbers were last
/// read.
struct PresenterEventCounts: Sendable {
    /// For each guest: events of items in the presented directories.
    private var ofSubitems: [UInt32: Int] = [:]
    /// For each guest: events, questions and access sessions about the presented items themselves.
    private var ofItems: [UInt32: Int] = [:]
    /// For each guest: the events and questions about presented items that one arbiter event has caused.
    private var ofPresentEvent: [UInt32: Int] = [:]

    /// The number of questions and events per arbiter event that is not charged to a guest.
    ///
    /// So few of them cost no more than the arbiter event itself. If they were charged, frequent small events of
    /// another user could mute a guest.
    private static let uncountedEvents = 16

    @inline(__always)
    mutating func beginEvent() {
        if !ofPresentEvent.isEmpty { ofPresentEvent.removeAll(keepingCapacity: true) }
    }

    mutating func countSubitemEvent(of presenter: PresenterRecord) {
        if let guest = presenter.presenter.guest { ofSubitems[guest, default: 0] += 1 }
    }

    mutating func countItemEvent(of presenter: PresenterRecord) {
        guard let guest = presenter.presenter.guest else { return }
        ofPresentEvent[guest, default: 0] += 1
        let count = ofPresentEvent[guest] ?? 0
        guard count > Self.uncountedEvents else { return }
        // If there are more than that, the first 16 are charged as well.
        ofItems[guest, default: 0] += count == Self.uncountedEvents + 1 ? count : 1
    }

    /// Returns the number of events of items in presented directories for each guest, and resets the numbers to zero.
    mutating func takeSubitemEvents() -> [UInt32: Int] {
        if ofSubitems.isEmpty { return [:] }
        defer { ofSubitems = [:] }
        return ofSubitems
    }

    /// Returns the number of events and questions about presented items for each guest, and resets the numbers to
    /// zero.
    mutating func takeItemEvents() -> [UInt32: Int] {
        if ofItems.isEmpty { return [:] }
        defer { ofItems = [:] }
        return ofItems
    }
}
