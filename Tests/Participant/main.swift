// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Foundation

// A program that uses the library as it is told, line by line, and says what happens to it, line by line; each line
// begins with the name of the access or presenter that it is about. The first argument is the directory in which all
// paths are. With a second one, the path of a control socket, that directory is taken for a mount.
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
// Whoever is still at work here is not waited for: its end is the end of all that it has.
exit(0)
