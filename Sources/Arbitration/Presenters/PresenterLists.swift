// SPDX-License-Identifier: Apache-2.0
import Coordination

extension Party {
    /// P5: whether the accesses of this party are a presenter's own.
    func isOwn(of presenter: Party) -> Bool {
        if let purpose { return purpose == presenter.purpose }
        return isSameProcess(as: presenter)
    }

    /// Whether accesses of both parties belong to one session.
    ///
    /// They do for one process and its ancestors; between two purposes, if these are equal. All unknown parties count as one
    /// program, which matters only to notices: no presenter is asked twice about them.
    func isOneProgram(with other: Party) -> Bool {
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        if process == nil, other.process == nil { return true }
        return isRelated(to: other)
    }
}

extension [PresenterID] {
    /// The index of a presenter in a sorted list, or where it belongs.
    private func place(of id: PresenterID) -> Int {
        var (low, high) = (0, count)
        // A new presenter has the highest number.
        if let last, last < id { return count }
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func insertSorted(_ id: PresenterID) { insert(id, at: place(of: id)) }

    mutating func removeSorted(_ id: PresenterID) {
        let place = place(of: id)
        if place < count, self[place] == id { remove(at: place) }
    }
}
