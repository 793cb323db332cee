// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The programs that act in a generated simulation.
struct ProgramPopulation {
    /// The programs, threads and children that access files without the control socket.
    private(set) var programs: [Party] = []
    /// The programs with presenters. Children of such a program work for it.
    private(set) var editors: [Party] = []
    /// The programs that make accesses over the control socket.
    private(set) var aware: [Party] = []
    private var number: Int32 = 100

    init(families: Int, _ chance: inout SeededRandom) {
        while programs.isEmpty || aware.isEmpty || editors.isEmpty || number < 100 + Int32(families) * 10 {
            addFamily(&chance)
        }
    }

    private mutating func addFamily(_ chance: inout SeededRandom) {
        let root = process(number)
        switch chance.below(10) {
        case 0...2: programs.append(party(root))
        case 3:
            // The two parties are two threads of one program.
            for thread in 1...2 as ClosedRange<Int32> {
                var party = party(root)
                party.thread = thread
                programs.append(party)
            }
        case 4: programs.append(party(root, chance.isLucky(50) ? .background : .watcher))
        case 5...7: addEditor(root, &chance)
        default: addAware(root, &chance)
        }
        number += 10
    }

    private mutating func addEditor(_ root: ProcessID, _ chance: inout SeededRandom) {
        let terminal = root.number
        var editor = party(root)
        editor.terminals = [terminal]
        programs.append(editor)
        var presenterModel = editor
        if chance.isLucky(50) {
            presenterModel.purpose = Purpose("e\(root.number)")
            aware.append(presenterModel)
        }
        editors.append(presenterModel)
        for offset in 1...(1 + Int32(chance.below(3))) {
            var child = Party(process: process(root.number + offset), ancestors: [root])
            child.session = root.number
            // Some children run in a terminal of their own, as in a terminal pane of an editor.
            child.terminals = chance.isLucky(30) ? [terminal + offset, terminal] : [terminal, terminal]
            if chance.isLucky(30) {
                child = Party(process: child.process, ancestors: [process(root.number + 9), root])
                child.session = root.number
                child.terminals = [0, 0, terminal]
            }
            programs.append(child)
        }
    }

    private mutating func addAware(_ root: ProcessID, _ chance: inout SeededRandom) {
        for index in 0...chance.below(3) {
            var party = party(root)
            party.purpose = Purpose("a\(root.number)x\(index)")
            aware.append(party)
            if chance.isLucky(40) { editors.append(party) }
        }
        // Sometimes a second process has the same purpose as this process.
        if chance.isLucky(30) {
            var party = party(process(root.number + 5))
            party.purpose = Purpose("a\(root.number)x0")
            aware.append(party)
        }
        programs.append(party(root))
    }

    private func process(_ number: Int32) -> ProcessID { ProcessID(number: number, started: 1) }

    private func party(_ process: ProcessID, _ programClass: ProgramClass = .ordinary) -> Party {
        var party = Party(process: process, ancestors: [], programClass: programClass)
        party.session = process.number
        return party
    }
}
