// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Stores one pointer for each thread. Swift itself has no thread-local variables.
package struct ThreadSlot: Sendable {
    private let key: pthread_key_t

    private init() {
        var key = pthread_key_t()
        let result = pthread_key_create(&key, nil)
        precondition(result == 0, "a process has far more keys than this one needs")
        self.key = key
    }

    /// The queue of effects that the calling thread, a thread of the engine, carries out at present.
    package static let effectQueue = ThreadSlot()

    package var value: UnsafeMutableRawPointer? {
        get { pthread_getspecific(key) }
        nonmutating set { pthread_setspecific(key, newValue) }
    }
}
