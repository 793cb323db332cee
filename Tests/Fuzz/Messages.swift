// SPDX-License-Identifier: Apache-2.0
import Glibc

/// libFuzzer calls this function with each stream of bytes that it has generated.
@c(LLVMFuzzerTestOneInput)
public func sendStream(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try stage.play(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}

/// The variable needs no lock, because libFuzzer makes all calls on one thread, one after the other.
private nonisolated(unsafe) let stage: HostileStage = {
    // @unchecked: a single thread calls `sendStream` and ends the process, and no other thread reads this variable.
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
