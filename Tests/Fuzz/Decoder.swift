// SPDX-License-Identifier: Apache-2.0

/// libFuzzer calls this with each stream that it has made up.
@c(LLVMFuzzerTestOneInput)
public func checkStream(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try StreamChecks.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}
