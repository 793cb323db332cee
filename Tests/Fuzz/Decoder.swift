// SPDX-License-Identifier: Apache-2.0

/// libFuzzer calls this function with each stream of bytes that it has generated.
@c(LLVMFuzzerTestOneInput)
public func checkStream(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try StreamChecks.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}
