// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// The presenters of this process.
final class LocalPresenterRegistry: Sendable {
    static let shared = LocalPresenterRegistry()

    private struct PresenterPurpose {
        weak var presenter: (any FilePresenter)?
        let purpose: String
    }

    private struct State {
        /// In the order in which they were added.
        var registrations: [Registration] = []
        /// What presenters and the coordinators linked to them have in common, registered or not.
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

    /// If `staysAfterFailure`, it stays among the presenters of this process although nobody can be told of it.
    func add(_ presenter: any FilePresenter, staysAfterFailure: Bool) throws(FileCoordinationError) {
        let registration = Registration(of: presenter, purpose: purpose(of: presenter))
        state.withLock { $0.registrations.append(registration) }
        do throws(FileCoordinationError) {
            try registration.register()
        } catch {
            if staysAfterFailure {
                // Whoever asked for that says so, and nobody else says it again.
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

    /// Presenters that have no URL yet, or had one below no mount.
    var hasNew: Bool { state.withLock { state in state.registrations.contains { $0.isNew } } }

    /// There is a new connection. Presenters that were below no mount may be below this one.
    func registerAgain(on connection: MountConnection) {
        let lost = state.withLock { state in
            state.registrations.filter { $0.isLost(on: connection) || $0.isNew }
        }
        for registration in lost {
            do throws(FileCoordinationError) {
                if try registration.register() { registration.deliverGap() }
            } catch {
                // What cannot be registered now is tried again and again, and complained about once.
                if registration.takeFailureToLog() {
                    Self.logRegistrationFailure(error, about: registration.presenter.value)
                }
            }
        }
    }

    /// For those who cannot be told: Apple's method to add a presenter gives nothing back.
    static func logRegistrationFailure(_ error: FileCoordinationError, about presenter: any FilePresenter) {
        let suggestion = error.suggestion.map { "; \($0)" } ?? ""
        NSLog("%@", "\(type(of: presenter)) is not a presenter of anything: \(error.message)\(suggestion)")
    }
}
