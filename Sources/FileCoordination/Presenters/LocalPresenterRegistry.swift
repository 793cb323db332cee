// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// The presenters that this process has added.
final class LocalPresenterRegistry: Sendable {
    static let shared = LocalPresenterRegistry()

    private struct PresenterPurpose {
        weak var presenter: (any FilePresenter)?
        let purpose: String
    }

    private struct State {
        var registrations: [Registration] = []
        /// The purpose of each presenter and of the coordinators that are linked to the presenter. The presenter need not be
        /// registered.
        var purposes: [ObjectIdentifier: PresenterPurpose] = [:]
        var sweepThreshold = 64
    }

    private let state = Mutex(State())

    var presenters: [any FilePresenter] {
        state.withLock { $0.registrations.map(\.presenter) }.map(\.value)
    }

    func registration(of presenter: any FilePresenter) -> Registration? {
        state.withLock { state in state.registrations.first { $0.presenter.value === presenter } }
    }

    func purpose(of presenter: any FilePresenter) -> String {
        let boxed = UncheckedSendableBox(presenter)
        return state.withLock { state in
            let key = ObjectIdentifier(boxed.value)
            if let known = state.purposes[key], known.presenter === boxed.value { return known.purpose }
            if state.purposes.count >= state.sweepThreshold {
                state.purposes = state.purposes.filter { $0.value.presenter != nil }
                state.sweepThreshold = max(64, 2 * state.purposes.count)
            }
            let purpose = UUID().uuidString
            state.purposes[key] = PresenterPurpose(presenter: boxed.value, purpose: purpose)
            return purpose
        }
    }

    /// Adds a presenter to the list and registers it. If the registration fails, the presenter stays in the list only if
    /// `staysAfterFailure` is true.
    func add(_ presenter: any FilePresenter, staysAfterFailure: Bool) throws(FileCoordinationError) {
        let registration = Registration(of: presenter, purpose: purpose(of: presenter))
        state.withLock { $0.registrations.append(registration) }
        do throws(FileCoordinationError) {
            try registration.register()
        } catch {
            if staysAfterFailure {
                // The caller logs this failure. This line prevents later attempts from logging it again.
                _ = registration.takeFailureToLog()
            } else {
                state.withLock { state in state.registrations.removeAll { $0 === registration } }
            }
            throw error
        }
    }

    func remove(_ presenter: any FilePresenter) {
        let boxed = UncheckedSendableBox(presenter)
        let registration = state.withLock { state in
            let index = state.registrations.lastIndex { $0.presenter.value === boxed.value }
            return index.map { state.registrations.remove(at: $0) }
        }
        registration?.remove()
    }

    func hasLost(on connection: MountConnection) -> Bool {
        state.withLock { state in state.registrations.contains { $0.isLost(on: connection) } }
    }

    /// Whether the list contains a presenter that was never registered, because it has no URL yet or its URL is in no mount.
    var hasNew: Bool { state.withLock { state in state.registrations.contains { $0.isNew } } }

    /// Registers presenters on a new connection: presenters of the mount's former connection, and presenters that were never
    /// registered. The item of a presenter that was never registered can be in this mount.
    func registerAgain(on connection: MountConnection) {
        let lost = state.withLock { state in
            state.registrations.filter { $0.isLost(on: connection) || $0.isNew }
        }
        for registration in lost {
            do throws(FileCoordinationError) {
                if try registration.register() { registration.deliverGap() }
            } catch {
                // A failed registration is repeated, possibly many times. Only the first failure is logged.
                if registration.takeFailureToLog() {
                    Self.logRegistrationFailure(error, about: registration.presenter.value)
                }
            }
        }
    }

    /// Logs a failed registration, because Apple's method that adds a presenter returns no error to the program.
    static func logRegistrationFailure(_ error: FileCoordinationError, about presenter: any FilePresenter) {
        let suggestion = error.suggestion.map { "; \($0)" } ?? ""
        NSLog("%@", "\(type(of: presenter)) is not a presenter of anything: \(error.message)\(suggestion)")
    }
}
