// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A step of a simulation. Each step can be written as a command of a scenario file.
package enum SimulationStep: Hashable, Sendable {
    /// The step makes a claim. If the step contains a party, this party is sent as soon as the arbiter asks for the claim's
    /// party.
    indirect case claim(ClaimRequest, by: Party?)
    indirect case event(ArbiterEvent)
    /// The step advances the time, with a tick at every moment for which the arbiter asked.
    case advance(TimeSpan)
    /// The step advances the time, with a single tick at the end of the span.
    case late(TimeSpan)
}

/// Writes steps as commands of a scenario file, which a ``ScenarioInterpreter`` can read.
package enum CommandWriter {
    package static func text(_ step: SimulationStep) -> String {
        switch step {
        case .claim(let request, let party):
            let within = request.within.map { " \($0.rawValue)" }.joined()
            return "claim \(request.claim.rawValue) \(request.nature.rawValue)"
                + request.parts.map { " " + part($0) }.joined()
                + (request.accessPattern.contains(.appends) ? " appends" : "")
                + (request.accessPattern.contains(.locks) ? " locks" : "")
                + (within.isEmpty ? "" : " within" + within)
                + (request.answering.map { " answering \($0)" } ?? "")
                + (request.bounds.wait.map { " wait=\($0.milliseconds)ms" } ?? "")
                + (request.bounds.hold.map { " hold=\($0.milliseconds)ms" } ?? "")
                + (party.map { " by " + text(of: $0) } ?? "")
        case .event(let event): return text(of: event)
        case .advance(let span): return "advance \(span.milliseconds)ms"
        case .late(let span): return "late \(span.milliseconds)ms"
        }
    }

    package static func text(_ bounds: Bounds) -> String {
        let spans: [(String, TimeSpan)] = [
            ("wait", bounds.wait), ("hold", bounds.hold), ("holdAware", bounds.holdAware),
            ("idle", bounds.idle), ("readerIdle", bounds.readerIdle), ("outset", bounds.unchangedGrace),
            ("glance", bounds.firstObservationDelay),
            ("relinquish", bounds.relinquish), ("save", bounds.save), ("deletion", bounds.deletion),
            ("progress", bounds.progress), ("askAgain", bounds.askAgain), ("trailing", bounds.trailing),
            ("steps", bounds.steps),
            ("excused", bounds.excused),
        ]
        return "bounds policy=\(bounds.policy.rawValue)"
            + spans.map { " \($0)=\($1.milliseconds)ms" }.joined()
    }

    static func text(of party: Party) -> String {
        guard let process = party.process else { return "nobody" }
        var words = ["\(process.number)"]
        if !party.ancestors.isEmpty { words += ["below"] + party.ancestors.map { "\($0.number)" } }
        if party.programClass != .ordinary { words.append(party.programClass.rawValue) }
        if party.thread != 0 { words.append("thread \(party.thread)") }
        if party.session != 0 { words.append("session \(party.session)") }
        if !party.terminals.isEmpty { words += ["terminals"] + party.terminals.map { "\($0)" } }
        if let purpose = party.purpose { words.append("purpose \(purpose.rawValue)") }
        if let partner = party.partner { words += ["beside", text(of: partner)] }
        return words.joined(separator: " ")
    }

    private static func part(_ part: ClaimRequest.Part) -> String {
        "\(text(of: part.access)) \(part.item)\(text(of: part.place, after: "in"))"
            + (part.via.map { " via \($0)" } ?? "")
    }

    private static func text(of access: Access) -> String {
        switch access {
        case .write(let option): return option.rawValue
        case .read(let options):
            let names = CommandParser.readingOptions.filter { options.contains($0.value) }.keys.sorted()
            return names.isEmpty ? "read" : "read(\(names.joined(separator: ",")))"
        }
    }

    private static func text(of place: Place, after preposition: String) -> String {
        (place.directory.map { " \(preposition) \($0)" } ?? "")
            + (place.link.map { " link \($0.rawValue)" } ?? "")
    }

    private static func author(_ party: Party, _ claim: ClaimID?) -> String {
        claim.map { " under \($0.rawValue)" } ?? " by " + text(of: party)
    }

    private static func text(of event: ArbiterEvent) -> String {
        switch event {
        case .claimed(let request): return text(.claim(request, by: nil))
        case .identified(let claim, let party): return "identified \(claim.rawValue) \(text(of: party))"
        case .observed(let claim, let observation):
            return "observed \(claim.rawValue) \(text(of: observation))"
        case .locked(let claim): return "locked \(claim.rawValue)"
        case .closed(let claim): return "close \(claim.rawValue)"
        case .ended(let claim): return "end \(claim.rawValue)"
        case .withdrawn(let claim): return "withdraw \(claim.rawValue)"
        case .forced(let claim): return "force \(claim.rawValue)"
        case .overdue(let claim): return "overdue \(claim.rawValue)"
        case .vacated(let document, let orphan): return "vacated \(document) \(orphan)"
        case .replaced(let document, let incoming, let orphan):
            return "replaced \(document) \(incoming)" + (orphan.map { " \($0)" } ?? "")
        case .removed(let presenter): return "remove \(presenter)"
        case .paused(let presenters): return "pause " + presenters.map(\.description).joined()
        case .resumed(let presenters, _, _): return "resume " + presenters.map(\.description).joined()
        case .muted(let presenters): return "mute " + presenters.map(\.description).joined()
        case .unmuted(let presenters): return "unmute " + presenters.map(\.description).joined()
        case .answered(let question, let presenter, let answer):
            return "answer \(question) \(presenter)" + (answer == .done ? "" : " failed")
        case .progressed(let question): return "progress \(question)"
        case .hurried(let question, let span): return "hurry \(question) \(span.milliseconds)ms"
        case .tick: return "late 0ms"
        default: return textOfFact(event)
        }
    }

    private static func textOfFact(_ event: ArbiterEvent) -> String {
        switch event {
        case .placed(let item, let directory):
            return (directory.isPackage ? "package " : "directory ") + "\(item)"
                + (directory.parent.map { " in \($0)" } ?? "")
        case .forgotten(let item): return "forget \(item)"
        case .relinked(let link, let item, let place):
            return "relinked \(link) to \(item)\(text(of: place, after: "in"))"
        case .presented(let presenter):
            return "present \(presenter.id) \(presenter.item.map { "\($0)" } ?? "none")"
                + text(of: presenter.place, after: "in") + " by " + text(of: presenter.party)
                + " implementing" + text(of: presenter.messages)
        case .shown(let presenter, let item, let place):
            return "shown \(presenter) \(item)\(text(of: place, after: "in"))"
        case .changed(let item, let place, let cause, let claim, let stamp):
            return "changed \(item)\(text(of: place, after: "in")) stamp \(stamp)"
                + author(cause.party, claim)
        case .written(let item, let place, let cause, let claim, let stamp):
            return "written \(item)\(text(of: place, after: "in")) stamp \(stamp)"
                + author(cause.party, claim)
        case .created(let item, let place, let party, let claim):
            return "created \(item)\(text(of: place, after: "in"))" + author(party, claim)
        case .deleted(let item, let place, let party, let claim):
            return "deleted \(item)\(text(of: place, after: "in"))" + author(party, claim)
        case .lost(let item, let place, let party):
            return "lost \(item)\(text(of: place, after: "in")) by \(text(of: party))"
        case .versioned(let item, let place, let change, let cause):
            let verb = change.kind == .lost ? "lost-version" : change.kind.rawValue
            return "\(verb) \(change.version?.rawValue ?? 0) \(item)\(text(of: place, after: "in"))"
                + author(cause.party, nil)
        case .moved(let item, let move, let party, let claim):
            return "moved \(item)" + text(of: move.from, after: "from") + text(of: move.to, after: "to")
                + (move.placeholder.map { " leaving \($0)" } ?? "")
                + (move.replacedDocument.map { " over \($0)" } ?? "")
                + (move.isSecondHalf ? " exchanged" : "") + author(party, claim)
        default: return ""
        }
    }

    private static func text(of observation: Observation) -> String {
        switch observation {
        case .clean: "clean"
        case .unchanged(let position): "unchanged \(position)"
        case .emptied: "untouched"
        case .dirty(let stamp): "dirty \(stamp)"
        case .atEnd: "atEnd"
        case .atEndUnconfirmed(let position): "finishing \(position)"
        case .reading(let position): "reading \(position)"
        }
    }

    private static func text(of messages: PresenterMessages) -> String {
        if messages == .all { return " all" }
        let requests = PresenterRequest.allCases.filter { messages.contains(PresenterMessages($0)) }
        let notices = PresenterNotice.allCases.filter { messages.contains(PresenterMessages($0)) }
        return (requests.map(\.rawValue) + notices.map(\.rawValue)).map { " " + $0 }.joined()
    }
}
