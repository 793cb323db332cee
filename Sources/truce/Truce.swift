// SPDX-License-Identifier: Apache-2.0
@main
struct Truce {
    static func main() {}
}
