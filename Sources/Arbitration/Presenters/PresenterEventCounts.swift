// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The number of events and questions that the presenters of each share received since the last reading.
struct PresenterEventCounts: Sendable {
    /// Events at names below the presented items.
    private var ofSubitems: [UInt32: Int] = [:]
    /// Events, questions and access sessions about the presented items themselves.
    private var ofItems: [UInt32: Int] = [:]
    /// The same number for the present event only.
    private var ofPresentEvent: [UInt32: Int] = [:]

    /// The number of events and questions of one arbiter event that are not counted.
    ///
    /// They cost the user that caused them no more than the event itself. Otherwise frequent small events of another user
    /// could have a guest muted.
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
        // Above the limit, the first ones of such an event count as well.
        ofItems[guest, default: 0] += count == Self.uncountedEvents + 1 ? count : 1
    }

    /// Returns the number of events below their items, by share, and resets it.
    mutating func takeSubitemEvents() -> [UInt32: Int] {
        if ofSubitems.isEmpty { return [:] }
        defer { ofSubitems = [:] }
        return ofSubitems
    }

    /// Returns the number of events and questions about the items themselves, by share, and resets it.
    mutating func takeItemEvents() -> [UInt32: Int] {
        if ofItems.isEmpty { return [:] }
        defer { ofItems = [:] }
        return ofItems
    }
}
