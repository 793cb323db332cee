// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// Performs the commands of a scenario file: it has a clock, and answers the requests of the arbiter.
///
///     bounds hold=2s policy=fail            before the first claim
///     directory @1, directory @5 in @1, package @6 in @5, forget @6
///     claim 1 handle read @1 by 100         `by` answers `identify #1` at once; otherwise no answer
///     claim 2 nameChange forMoving @1 in @5 forReplacing @2 in @6 link 2 by 100 below 50 20
///     claim 3 aware read(withoutChanges,resolvesSymbolicLink) @1 via @7 within 1 2 answering ?1 by 100 purpose x
///     identified 1 100 below 50 background thread 7
///     shows 1 dirty 7                       the result of each later observation of #1
///     observed 1 reading 512
///     end 1, withdraw 1, force 1
///     vacated @1 @9, replaced @1 @2 @9, replaced @1 @2
///     relinked @7 to @2 in @5
///     advance 250ms                         ticks at every moment the arbiter asked for
///     late 250ms                            one tick, at the end
///     claim 4 handle forMerging @1 appends by 100, locked 4
///     pass 250ms                            time passes without a tick
///     beside 3                              asks for the suspended writer
///     clean 3, overruled 3                  asks whether #3 had changed nothing when suspended; was superseded
///     why 3, on @1                          asks for the blockers of #3; for the claims and presenters of @1
///     remembered                            asks for the number of records in the arbiter
///     present p1 @1 in @5 by 50 implementing all, present p1 none by 50 implementing all
///     shown p1 @1 in @5, pause p1, resume p1, remove p1
///     gained 7 @1 in @5 by 100, lost-version 7 @1 by 100, resolved 7 @1 by 100
///     answer ?1 p1, answer ?1 p1 failed, progress ?1
///     changed @1 stamp 7 under 3, changed @1 in @5 stamp 7 by 100
///     created @1 in @5 by 100, deleted @1 in @5 under 3, lost @1 by 100
///     moved @1 by 100, moved @1 from @5 to @6 leaving @9 under 3
///     moved @2 from @5 link 2 to @5 link 1 over @1 by 100
package struct ScenarioInterpreter {
    private var bounds = Bounds()
    private lazy var arbiter = Arbiter(bounds: bounds)
    private var now = Instant(nanoseconds: 0)
    private var wakes = WakeSchedule()
    private var parties: [ClaimID: Party] = [:]
    private var shown: [ClaimID: Observation] = [:]

    package init() {}

    package mutating func run(_ command: String) -> String {
        var words = CommandParser(command)
        guard let lines = try? perform(&words) else { return "cannot read this command" }
        return lines.joined(separator: "\n")
    }

    private mutating func perform(_ words: inout CommandParser) throws(CommandSyntaxError) -> [String] {
        let name = try words.next()
        switch name {
        case "bounds": return try setBounds(&words)
        case "claim": return try claim(&words)
        case "identified": return tell(.identified(try words.claim(), try words.party()))
        case "shows":
            shown[try words.claim()] = try words.observation()
            return []
        case "observed": return tell(.observed(try words.claim(), try words.observation()))
        case "locked": return tell(.locked(try words.claim()))
        case "close": return tell(.closed(try words.claim()))
        case "end": return tell(.ended(try words.claim()))
        case "withdraw": return tell(.withdrawn(try words.claim()))
        case "force": return tell(.forced(try words.claim()))
        case "overdue": return tell(.overdue(try words.claim()))
        case "vacated": return tell(.vacated(document: try words.item(), orphan: try words.item()))
        case "replaced":
            return tell(
                .replaced(
                    document: try words.item(), incoming: try words.item(),
                    orphan: words.isAtEnd ? nil : try words.item()))
        case "directory", "package", "forget", "relinked": return tell(try treeEvent(name, &words))
        case "present": return tell(.presented(try presenter(&words)))
        case "shown":
            return tell(.shown(try words.presenter(), try words.item(), at: try words.place(after: "in")))
        case "remove": return tell(.removed(try words.presenter()))
        case "pause": return tell(.paused([try words.presenter()]))
        case "resume": return tell(.resumed([try words.presenter()], behind: [], told: []))
        case "mute": return tell(.muted([try words.presenter()]))
        case "unmute": return tell(.unmuted([try words.presenter()]))
        case "answer":
            let (question, presenter) = (try words.question(), try words.presenter())
            return tell(.answered(question, by: presenter, words.isAtEnd ? .done : .failed))
        case "progress": return tell(.progressed(try words.question()))
        case "hurry": return tell(.hurried(try words.question(), try words.span()))
        case "changed": return try change(&words, isOngoing: false)
        case "written": return try change(&words, isOngoing: true)
        case "created", "moved", "deleted", "lost": return tell(try nameEvent(name, &words))
        case "gained", "lost-version", "resolved": return tell(try versionEvent(name, &words))
        case "advance": return advance(by: try words.span())
        case "late":
            now = now + (try words.span())
            return tell(.tick)
        case "pass":
            now = now + (try words.span())
            return []
        case "beside":
            return [arbiter.suspendedWriter(beside: try words.claim())?.description ?? "nobody"]
        case "clean": return [arbiter.hasYieldedClean(try words.claim()) ? "yes" : "no"]
        case "overruled": return [arbiter.isSuperseded(try words.claim()) ? "yes" : "no"]
        case "why": return arbiter.blockingChain(of: try words.claim())
        case "on": return arbiter.claimsAndPresenters(of: try words.item())
        case "remembered": return ["\(arbiter.remembered)"]
        default: throw CommandSyntaxError()
        }
    }

    private func treeEvent(_ name: String, _ words: inout CommandParser) throws(CommandSyntaxError)
        -> ArbiterEvent
    {
        let item = try words.item()
        switch name {
        case "forget": return .forgotten(item)
        case "relinked":
            try words.expect("to")
            return .relinked(item, to: try words.item(), at: try words.place(after: "in"))
        default:
            let parent = try words.follows("in") ? try words.item() : nil
            return .placed(item, DirectoryInfo(in: parent, isPackage: name == "package"))
        }
    }

    /// Reads a presenter, such as `p1 @1 in @5 by 50 implementing all`. `none` stands for an item that does not exist yet.
    private func presenter(_ words: inout CommandParser) throws(CommandSyntaxError) -> Presenter {
        let id = try words.presenter()
        let item = try words.follows("none") ? nil : try words.item()
        let place = try words.place(after: "in")
        try words.expect("by")
        let party = try words.party()
        try words.expect("implementing")
        return Presenter(id, of: item, at: place, by: party, try words.messages())
    }

    /// Reads an event at a name, such as `created @1 in @5 by 100` or `moved @1 from @5 to @6 leaving @9 under 3`.
    private func nameEvent(_ name: String, _ words: inout CommandParser) throws(CommandSyntaxError)
        -> ArbiterEvent
    {
        let item = try words.item()
        guard name == "moved" else {
            let place = try words.place(after: "in")
            let (claim, party) = try author(&words)
            switch name {
            case "created": return .created(item, at: place, by: party, under: claim)
            case "deleted": return .deleted(item, at: place, by: party, under: claim)
            default: return .lost(item, at: place, by: party)
            }
        }
        var move = Move(from: try words.place(after: "from"), to: try words.place(after: "to"))
        if try words.follows("leaving") { move.placeholder = try words.item() }
        if try words.follows("over") { move.replacedDocument = try words.item() }
        move.isSecondHalf = try words.follows("exchanged")
        let (claim, party) = try author(&words)
        return .moved(item, move, by: party, under: claim)
    }

    /// Reads the claim or the party that made a change: `under 3` or `by 100`.
    private func author(_ words: inout CommandParser) throws(CommandSyntaxError) -> (ClaimID?, Party) {
        if try words.follows("under") {
            let claim = try words.claim()
            return (claim, parties[claim] ?? .nobody)
        }
        try words.expect("by")
        return (nil, try words.party())
    }

    /// Reads a change, such as `changed @1 in @5 stamp 7 under 3` or `changed @1 stamp 7 by 100`; `written` replaces `changed`.
    private mutating func change(_ words: inout CommandParser, isOngoing: Bool) throws(CommandSyntaxError)
        -> [String]
    {
        let item = try words.item()
        let place = try words.place(after: "in")
        try words.expect("stamp")
        let stamp = try words.number()
        let (claim, party) = try author(&words)
        let cause = Cause(party, .write(.updating))
        return tell(
            isOngoing
                ? .written(item, at: place, cause, under: claim, stamp: stamp)
                : .changed(item, at: place, cause, under: claim, stamp: stamp))
    }

    /// Reads a change of a version, such as `gained 7 @1 in @5 by 100`, `lost-version 7 @1 by 100` or `resolved 7 @1 by 100`. The number
    /// 0 stands for several changes.
    private func versionEvent(_ name: String, _ words: inout CommandParser) throws(CommandSyntaxError)
        -> ArbiterEvent
    {
        let kind: VersionChange.Kind = name == "gained" ? .gained : name == "resolved" ? .resolved : .lost
        let number: UInt64 = try words.number()
        let change = VersionChange(kind, number == 0 ? nil : VersionNumber(number))
        let (item, place) = (try words.item(), try words.place(after: "in"))
        try words.expect("by")
        return .versioned(item, at: place, change, Cause(try words.party(), .write(.updating)))
    }

    private mutating func setBounds(_ words: inout CommandParser) throws(CommandSyntaxError) -> [String] {
        while !words.isAtEnd { try words.bound(&bounds) }
        arbiter = Arbiter(bounds: bounds)
        return []
    }

    private mutating func claim(_ words: inout CommandParser) throws(CommandSyntaxError) -> [String] {
        let claim = try words.claim()
        guard let nature = ClaimRequest.Nature(rawValue: try words.next()) else { throw CommandSyntaxError() }
        let first = try words.part()
        var rest: [ClaimRequest.Part] = []
        while let word = words.peek, !["appends", "locks", "within", "answering", "by"].contains(word),
            !word.contains("=")
        {
            rest.append(try words.part())
        }
        var accessPattern: ClaimRequest.AccessPattern = try words.follows("appends") ? .appends : []
        if try words.follows("locks") { accessPattern.insert(.locks) }
        var request = ClaimRequest(claim, nature, first, rest, accessPattern: accessPattern)
        if try words.follows("within") {
            while let word = words.peek, UInt64(word) != nil { request.within.append(try words.claim()) }
        }
        if try words.follows("answering") { request.answering = try words.question() }
        request.bounds = try words.claimBounds()
        if !words.isAtEnd {
            try words.expect("by")
            parties[claim] = try words.party()
        }
        var lines = tell(.claimed(request))
        if nature == .pendingSave, let party = parties[claim] { lines += tell(.identified(claim, party)) }
        return lines
    }

    /// Sends an event to the arbiter and answers the arbiter's requests. Returns a line for each event and effect.
    private mutating func tell(_ event: ArbiterEvent, isQuiet: Bool = false) -> [String] {
        if case .tick = event { wakes.pass(now) }
        var effects: [Effect] = []
        arbiter.handle(event, at: now, into: &effects)
        var lines: [String] = []
        var answers: [ArbiterEvent] = []
        for effect in effects {
            if case .wake(let moment) = effect { wakes.ask(for: moment) }
            if !isQuiet || !isRoutine(effect) { lines.append(describe(effect)) }
            if case .identify(let claim) = effect, let party = parties[claim] {
                answers.append(.identified(claim, party))
            }
            if case .observe(let claim) = effect, let observation = shown[claim] {
                answers.append(.observed(claim, observation))
            }
        }
        for answer in answers { lines += tell(answer, isQuiet: isQuiet) }
        return lines
    }

    /// Whether an effect is left out of the output while time advances. Wakes are left out, and observations for which the
    /// scenario has set the answer.
    private func isRoutine(_ effect: Effect) -> Bool {
        switch effect {
        case .wake: true
        case .observe(let claim): shown[claim] != nil
        default: false
        }
    }

    private mutating func advance(by span: TimeSpan) -> [String] {
        let end = now + span
        var lines: [String] = []
        while let moment = wakes.next, moment <= end {
            if moment > now { now = moment }
            lines += tell(.tick, isQuiet: true).map { "\(now): \($0)" }
        }
        now = end
        return lines
    }
}
