// SPDX-License-Identifier: Apache-2.0

// Public, unlike the rest of the module: the compiler specialises and inlines public declarations in other modules, but not
// `package` declarations.

/// Lets a `Reply` wait inside a dictionary or an escaping closure, neither of which can hold a
/// non-copyable value directly (Swift 6.3).
public final class Parked<Value: ~Copyable & Sendable>: @unchecked Sendable {
    // @unchecked: `value` is taken at most once, by the one outcome that settles the claim. Inlined code needs access to
    // `value`, so it is not private; only this class uses it.
    @usableFromInline var value: Value?
    @inlinable public init(_ value: consuming Value) { self.value = consume value }
    @inlinable public func take() -> Value? { value.take() }
}
