// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What libFuzzer calls with each stream it has made up.
@c(LLVMFuzzerTestOneInput)
public func sendStream(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try stage.play(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}

/// libFuzzer calls one after the other, on one thread.
private nonisolated(unsafe) let stage: HostileStage = {
    // @unchecked: one thread alone ever calls sendStream and ends the process, and nothing else reads this.
    atexit { endStage() }
    return HostileStage()
}()

private func endStage() {
    do {
        try stage.end()
        print(stage.figures)
    } catch {
        fatalError("\(error)")
    }
}
