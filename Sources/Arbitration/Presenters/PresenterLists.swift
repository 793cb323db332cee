// SPDX-License-Identifier: Apache-2.0
import Coordination

extension Party {
    /// P5: Whether an access of this party counts as an access of the presenter itself.
    func isOwn(of presenter: Party) -> Bool {
        if let purpose { return purpose == presenter.purpose }
        return isSameProcess(as: presenter)
    }

    /// Whether accesses of both parties belong to one access session.
    ///
    /// They do if the processes are the same, or one is an ancestor of the other. If both parties have a purpose, only
    /// the purposes are compared. All unknown parties are treated as one program.
    ///
    /// X7: A lease is one program only with itself. It lasts as long as its run, and presenters learn of the run's changes
    /// before that.
    func isOneProgram(with other: Party) -> Bool {
        if isLease || other.isLease { return process == other.process }
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        if process == nil, other.process == nil { return true }
        return isRelated(to: other)
    }
}

extension [PresenterID] {
    /// The index of a presenter in a sorted list. If the list does not contain the presenter, the index at which to
    /// insert it.
    private func place(of id: PresenterID) -> Int {
        var (low, high) = (0, count)
        // A new presenter has the highest number, so it comes last.
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
