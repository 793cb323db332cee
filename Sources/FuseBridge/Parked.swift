// SPDX-License-Identifier: Apache-2.0

// The declarations in this file are public, unlike the rest of the module. The compiler specialises and inlines public
// declarations in other modules, but not `package` declarations.

/// Holds a `Reply` for a dictionary or an escaping closure. In Swift 6.3, neither can hold a non-copyable value directly.
public final class Parked<Value: ~Copyable & Sendable>: @unchecked Sendable {
    // @unchecked: `value` is taken at most once, by the one outcome that settles the claim. `value` is not private, because
    // inlined code needs access to it; only this class uses it.
    @usableFromInline var value: Value?
    @inlinable public init(_ value: consuming Value) { self.value = consume value }
    @inlinable public func take() -> Value? { value.take() }
}
