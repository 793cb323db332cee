// SPDX-License-Identifier: Apache-2.0

extension ScenarioCatalogue {
    package static let numbers = 1...70

    /// The situations that no scene shows, each with the reason.
    package static let uncovered = [
        66: "when a document is dirty its class decides, which the library does not have yet",
        67: "to revert, or to keep both sides, its class decides as well",
        68: "so it does when another document is saved over it",
        70: "a matter of speed, which the benchmark of the arbiter shows",
    ]
}
