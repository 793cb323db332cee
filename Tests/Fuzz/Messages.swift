// SPDX-License-Identifier: Apache-2.0
import Glibc

/// libFuzzer calls this with each stream that it has made up.
@c(LLVMFuzzerTestOneInput)
public func sendStream(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try stage.play(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}

/// libFuzzer makes the calls in sequence, on one thread.
private nonisolated(unsafe) let stage: HostileStage = {
    // @unchecked: a single thread calls sendStream and ends the process, and no other thread reads this.
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
