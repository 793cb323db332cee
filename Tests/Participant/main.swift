// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Foundation

// A program that uses the library. It reads commands from its input, line by line, and prints the events of its accesses and
// presenters. Each printed line begins with the name of the access or presenter. The first argument is the directory of all
// paths. If a second argument is given, it is the path of a control socket, and the library treats the directory as a mount.
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
// The program exits without waiting for work that still runs. Its exit ends all its accesses.
exit(0)
