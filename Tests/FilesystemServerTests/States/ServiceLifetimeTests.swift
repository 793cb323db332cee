// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Testing

@testable import FilesystemServer

/// Checks that a lower service releases its references to higher services. Such a reference would keep a higher service alive
/// after the unmount.
@Suite("Lifetime of services")
struct ServiceLifetimeTests {
    private final class Service: Sendable {}

    @Test("the save tracker releases its subscribers when the subscriptions end")
    func endedSubscriptionsReleaseTheSubscriber() {
        let saves = SaveTracker(knowing: ProgramClasses([]))
        weak var released: Service?
        do {
            let service = Service()
            saves.onNameResolved { _, _ in _ = service }
            saves.onProgress { _ in _ = service }
            released = service
        }
        #expect(released != nil)
        saves.endSubscriptions()
        #expect(released == nil)
        saves.publishProgress(in: .root)
    }

    @Test(
        "when the descriptor budget gets a new function for finding owners, it releases the former function")
    func aNewFunctionForFindingOwnersReleasesTheFormer() {
        let budget = DescriptorBudget(limit: 1, handles: nil)
        weak var released: Service?
        do {
            let service = Service()
            budget.findOwners { _ in
                _ = service
                return nil
            }
            released = service
        }
        #expect(released != nil)
        budget.findOwners { _ in nil }
        #expect(released == nil)
    }
}
