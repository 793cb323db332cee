// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The number of events and questions that the presenters of each guest have received. Reading a number resets it to
/// zero.
struct PresenterEventCounts: Sendable {
    /// For each guest: events of items in the presented directories.
    private var ofSubitems: [UInt32: Int] = [:]
    /// For each guest: events, questions and access sessions about the presented items themselves.
    private var ofItems: [UInt32: Int] = [:]
    /// For each guest: the events and questions about presented items that one arbiter event has caused.
    private var ofPresentEvent: [UInt32: Int] = [:]

    /// If one arbiter event causes no more questions and events than this for a guest, they are not charged to the
    /// guest.
    ///
    /// Up to 16 messages cost no more than the arbiter event itself. If they were charged, another user could mute a
    /// guest by frequent small events.
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
        // If there are more than 16 messages, the first 16 are charged as well.
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
