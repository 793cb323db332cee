// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The questions to the note, and the notices that it gets. All members except the first are called on the note's own queue.
extension NoteDocument: NSFilePresenter {
    var presentedItemURL: URL? { withState { $0.fileURL } }

    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        withState { $0.relinquishments += 1 }
        report("relinquished to a reader")
        reader { [self] in
            reacquire()
            report("reacquired from a reader")
        }
    }

    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        withState { $0.relinquishments += 1 }
        report("relinquished to a writer")
        writer { [self] in
            reacquire()
            report("reacquired from a writer")
            readAgainIfChanged()
        }
    }

    private func reacquire() {
        let hasToSave = withState { state in
            state.relinquishments -= 1
            return state.canAutosave
        }
        if hasToSave { scheduleAutosave() }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        guard withState({ $0.hasUnsavedChanges && $0.fileURL != nil }) else { return completionHandler(nil) }
        do {
            try save()
            report("saved on request")
            completionHandler(nil)
        } catch {
            completionHandler(error)
        }
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        close()
        report("closed, because its file is to be deleted")
        completionHandler(nil)
    }

    func presentedItemDidMove(to newURL: URL) {
        withState { $0.fileURL = newURL }
        report("moved to \(newURL.lastPathComponent)")
    }

    func presentedItemDidChange() {
        // While another program writes the file, the note does not read it. The note reads the file when that write has ended.
        guard withState({ $0.relinquishments == 0 }) else { return }
        readAgainIfChanged()
    }
}
