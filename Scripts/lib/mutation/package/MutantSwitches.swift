// SPDX-License-Identifier: Apache-2.0
import CMutant

// Switches that are compiled into the arbiter with mutants. The environment variable MUTANT contains the numbers of the mutants
// that are alive.

@inline(__always)
func mutantIsAlive(_ number: Int32) -> Bool { mutant_is_alive(number) }

@inline(__always)
func mutantNegated(_ number: Int32, _ condition: Bool) -> Bool { condition != mutant_is_alive(number) }

@inline(__always)
func mutantIsLess<Value: Comparable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    one == other ? mutant_is_alive(number) : one < other
}

@inline(__always)
func mutantIsAtMost<Value: Comparable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    one == other ? !mutant_is_alive(number) : one <= other
}

@inline(__always)
func mutantIsMore<Value: Comparable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    one == other ? mutant_is_alive(number) : one > other
}

@inline(__always)
func mutantIsAtLeast<Value: Comparable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    one == other ? !mutant_is_alive(number) : one >= other
}

@inline(__always)
func mutantIsEqual<Value: Equatable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    (one == other) != mutant_is_alive(number)
}

@inline(__always)
func mutantIsUnequal<Value: Equatable>(_ number: Int32, _ one: Value, _ other: Value) -> Bool {
    (one != other) != mutant_is_alive(number)
}

@inline(__always)
func mutantIsNil<Value>(_ number: Int32, _ value: Value?) -> Bool {
    (value == nil) != mutant_is_alive(number)
}

@inline(__always)
func mutantIsNotNil<Value>(_ number: Int32, _ value: Value?) -> Bool {
    (value != nil) != mutant_is_alive(number)
}

/// Returns nil in place of the value of an optional binding, if the mutant is alive.
@inline(__always)
func mutantFound<Value>(_ number: Int32, _ value: Value?) -> Value? {
    value == nil || mutantIsAlive(number) ? nil : value
}

@inline(__always)
func mutantLeast<Value: Comparable>(_ number: Int32, _ one: Value, _ others: Value...) -> Value {
    others.reduce(one) { $0 == $1 ? $0 : mutant_is_alive(number) ? max($0, $1) : min($0, $1) }
}

@inline(__always)
func mutantGreatest<Value: Comparable>(_ number: Int32, _ one: Value, _ others: Value...) -> Value {
    others.reduce(one) { $0 == $1 ? $0 : mutant_is_alive(number) ? min($0, $1) : max($0, $1) }
}

extension Sequence {
    func mutantLeast(_ number: Int32, by isBefore: (Element, Element) throws -> Bool) rethrows -> Element? {
        mutantIsAlive(number) ? try self.max(by: isBefore) : try self.min(by: isBefore)
    }

    func mutantGreatest(_ number: Int32, by isBefore: (Element, Element) throws -> Bool) rethrows -> Element?
    {
        mutantIsAlive(number) ? try self.min(by: isBefore) : try self.max(by: isBefore)
    }
}

extension Sequence where Element: Comparable {
    func mutantLeast(_ number: Int32) -> Element? { mutantIsAlive(number) ? self.max() : self.min() }
    func mutantGreatest(_ number: Int32) -> Element? { mutantIsAlive(number) ? self.min() : self.max() }
}
