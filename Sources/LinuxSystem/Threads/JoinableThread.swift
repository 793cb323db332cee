// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Whether a thread gets the signals of its process.
package enum ThreadSignals: Hashable, Sendable {
    case delivered
    case blocked
}

/// A thread. The creator of the thread must either join or detach it.
package struct JoinableThread: ~Copyable {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let thread: pthread_t

    /// Starts a thread.
    ///
    /// - Parameters:
    ///   - signals: Whether the kernel may deliver signals of the process to this thread.
    ///   - run: What the thread does.
    /// - Throws: The error of pthread_create(3).
    package init(signals: ThreadSignals = .delivered, _ run: @escaping @Sendable () -> Void) throws(Errno) {
        var thread = pthread_t()
        let body = Unmanaged.passRetained(Body(run))
        // A new thread inherits the mask of its creator.
        var (all, before) = (sigset_t(), sigset_t())
        sigfillset(&all)
        if signals == .blocked { pthread_sigmask(SIG_SETMASK, &all, &before) }
        defer { if signals == .blocked { pthread_sigmask(SIG_SETMASK, &before, nil) } }
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
