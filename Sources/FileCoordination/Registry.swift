// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// The presenters of this process.
final class Registry: Sendable {
    static let shared = Registry()

    private struct Known {
        weak var presenter: (any FilePresenter)?
        let purpose: String
    }

    private struct State {
        /// In the order in which they were added.
        var registrations: [Registration] = []
        /// What presenters and the coordinators linked to them have in common, registered or not.
        var purposes: [ObjectIdentifier: Known] = [:]
        var isCrowdedAt = 64
    }

    private let state = Mutex(State())

    var presenters: [any FilePresenter] {
        state.withLock { $0.registrations.map(\.presenter) }.map(\.value)
    }

    func registration(of presenter: any FilePresenter) -> Registration? {
        state.withLock { state in state.registrations.first { $0.presenter.value === presenter } }
    }

    func purpose(of presenter: any FilePresenter) -> String {
        let boxed = Unchecked(presenter)
        return state.withLock { state in
            let key = ObjectIdentifier(boxed.value)
            if let known = state.purposes[key], known.presenter === boxed.value { return known.purpose }
            if state.purposes.count >= state.isCrowdedAt {
                state.purposes = state.purposes.filter { $0.value.presenter != nil }
                state.isCrowdedAt = max(64, 2 * state.purposes.count)
            }
            let purpose = UUID().uuidString
            state.purposes[key] = Known(presenter: boxed.value, purpose: purpose)
            return purpose
        }
    }

    /// If `isKept`, it stays among the presenters of this process although nobody can be told of it.
    func add(_ presenter: any FilePresenter, isKept: Bool) throws(FileCoordinationError) {
        let registration = Registration(of: presenter, purpose: purpose(of: presenter))
        state.withLock { $0.registrations.append(registration) }
        do throws(FileCoordinationError) {
            try registration.register()
        } catch {
            if isKept {
                // Whoever asked for that says so, and nobody else says it again.
                _ = registration.isComplaintDue()
            } else {
                state.withLock { state in state.registrations.removeAll { $0 === registration } }
            }
            throw error
        }
    }

    func remove(_ presenter: any FilePresenter) {
        let boxed = Unchecked(presenter)
        let registration = state.withLock { state in
            let index = state.registrations.lastIndex { $0.presenter.value === boxed.value }
            return index.map { state.registrations.remove(at: $0) }
        }
        registration?.remove()
    }

    func hasLost(on link: MountLink) -> Bool {
        state.withLock { state in state.registrations.contains { $0.isLost(on: link) } }
    }

    /// Presenters that have no URL yet, or had one below no mount.
    var hasNew: Bool { state.withLock { state in state.registrations.contains { $0.isNew } } }

    /// There is a new connection. Presenters that were below no mount may be below this one.
    func registerAgain(on link: MountLink) {
        let lost = state.withLock { state in
            state.registrations.filter { $0.isLost(on: link) || $0.isNew }
        }
        for registration in lost {
            do throws(FileCoordinationError) {
                if try registration.register() { registration.tellGap() }
            } catch {
                // What cannot be registered now is tried again and again, and complained about once.
                if registration.isComplaintDue() { Self.complain(error, about: registration.presenter.value) }
            }
        }
    }

    /// For those who cannot be told: Apple's method to add a presenter gives nothing back.
    static func complain(_ error: FileCoordinationError, about presenter: any FilePresenter) {
        let suggestion = error.suggestion.map { "; \($0)" } ?? ""
        NSLog("%@", "\(type(of: presenter)) is not a presenter of anything: \(error.message)\(suggestion)")
    }
}
