// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A thread. The creator of the thread must either join or detach it.
package struct JoinableThread: ~Copyable {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let thread: pthread_t

    package init(_ run: @escaping @Sendable () -> Void) throws(Errno) {
        var thread = pthread_t()
        let body = Unmanaged.passRetained(Body(run))
        let result = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, body.toOpaque())
        guard result == 0 else {
            body.release()
            throw Errno(rawValue: result)
        }
        self.thread = thread
    }

    package consuming func join() { pthread_join(thread, nil) }
    package consuming func detach() { pthread_detach(thread) }
}
