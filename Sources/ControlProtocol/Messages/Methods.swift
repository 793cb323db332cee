// SPDX-License-Identifier: Apache-2.0

/// All methods that a client can call. The schema and the documentation of the protocol list the same methods.
extension ClientRequest {
    package enum Method: String, Hashable, Sendable, CaseIterable {
        case initialize
        case status
        case register = "presenter/register"
        case remove = "presenter/remove"
        case beginAccess = "access/begin"
        case prepareAccess = "access/prepare"
        case endAccess = "access/end"
        case willMove = "access/willMove"
        case didMove = "access/didMove"
        case subscribe = "events/subscribe"
        case unsubscribe = "events/unsubscribe"
        case why
        case ps
        case showSettings = "config/show"
        case generation
        case beginRun = "run/begin"
        case endRun = "run/end"
        case listVersions = "versions/list"
        case readVersion = "versions/show"
        case preserveVersion = "versions/keep"
        case resolveVersions = "versions/resolve"
        case removeVersions = "versions/remove"
        case pruneVersions = "versions/prune"
        case listHistory = "history/list"
        case watchHistory = "history/watch"

        /// The names of methods in earlier releases, which clients still use.
        private static let formerNames: [String: Method] = [
            "kept/list": .listVersions, "kept/read": .readVersion, "kept/keep": .preserveVersion,
        ]

        /// Finds a method by its name, or by its name in an earlier release.
        init?(named name: String) {
            guard let method = Method(rawValue: name) ?? Self.formerNames[name] else { return nil }
            self = method
        }
    }

    package var method: Method {
        switch self {
        case .initialize: .initialize
        case .status: .status
        case .register: .register
        case .remove: .remove
        case .beginAccess: .beginAccess
        case .prepareAccess: .prepareAccess
        case .endAccess: .endAccess
        case .willMove: .willMove
        case .didMove: .didMove
        case .subscribe: .subscribe
        case .unsubscribe: .unsubscribe
        case .why: .why
        case .ps: .ps
        case .showSettings: .showSettings
        case .generation: .generation
        case .listVersions: .listVersions
        case .readVersion: .readVersion
        case .preserveVersion: .preserveVersion
        case .beginRun: .beginRun
        case .endRun: .endRun
        case .resolveVersions: .resolveVersions
        case .removeVersions: .removeVersions
        case .pruneVersions: .pruneVersions
        case .listHistory: .listHistory
        case .watchHistory: .watchHistory
        }
    }
}

extension ClientNotification {
    package enum Method: String, Hashable, Sendable, CaseIterable {
        case progress = "presenter/progress"
        case unsaved = "presenter/unsaved"
        case cancel = "$/cancelRequest"
    }

    package var method: Method {
        switch self {
        case .progress: .progress
        case .unsaved: .unsaved
        case .cancel: .cancel
        }
    }
}
