// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Foundation

// A program that uses the library as commanded, line by line, and prints its events. Each line that it prints begins with the
// name of the access or presenter. The first argument is the directory of all paths. The second, if given, is the path of a
// control socket: the library then treats the directory as a mount.
let arguments = CommandLine.arguments
guard (2...3).contains(arguments.count) else {
    FileHandle.standardError.write(Data("usage: Participant DIRECTORY [SOCKET]\n".utf8))
    exit(64)
}
if arguments.count == 3 {
    StandInMount.serve(directory: Array(arguments[1].utf8), by: Array(arguments[2].utf8))
}
let participant = Participant(at: arguments[1])
while let line = readLine() { participant.obey(line.split(separator: " ").map(String.init)) }
// The program does not wait for work that still runs: its end also ends all its accesses.
exit(0)
