// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Messages of every kind, with every member that one can have, and how they are read at the other end.
enum MessageSamples {
    static let requests = MessageTests.requests + PresenterMessageTests.allRequests

    static let notifications: [ClientNotification] = [
        .progress(.number(3)), .progress(.text("a")), .cancel(.number(-1)), .cancel(.text("")),
        .unsaved(UnsavedParameters(presenter: 7, isUnsaved: true)),
        .unsaved(UnsavedParameters(presenter: 8, isUnsaved: false)),
    ]

    static let answers = [
        AnswerMessage(to: .number(5)),
        AnswerMessage(to: .text("a"), failure: Failure(code: -32000, message: "no")),
        AnswerMessage(to: .number(5), failure: .deadlock("no", among: [actor])),
    ]

    static let bytes: [UInt8] = [0x61, 0xFF, 0x2F, 0x62]
    static let actor = ActorForm(pid: 5, user: 6, program: Array("p".utf8))
    static let cause = CauseForm(
        pid: 7, program: Array("vi".utf8), user: 1, operation: "read", isUncoordinated: true)

    static func question(_ request: PresenterRequest) -> PresenterQuestion {
        PresenterQuestion(
            request,
            PresenterQuestion.Parameters(
                presenter: 1, path: bytes, turn: 2, deadline: 5000, cause: cause,
                subitem: request == .accommodateSubitemDeletion ? bytes : nil))
    }

    static func news(_ notice: PresenterNotice) -> PresenterNews {
        let isAboutSubitem: Bool =
            switch notice {
            case .subitemDidAppear, .subitemDidChange, .subitemDidMove: true
            case .reacquire, .didChange, .didMove: false
            }
        return PresenterNews(
            notice,
            PresenterNews.Parameters(
                presenter: 1, path: bytes, newPath: notice == .didMove ? bytes + [0x63] : nil, turn: 2,
                sequence: 3, cause: cause, subitem: isAboutSubitem ? bytes : nil,
                newSubitem: notice == .subitemDidMove ? bytes + [0x63] : nil))
    }

    static func event(_ kind: EventKind) -> EventForm {
        guard kind != .gap else { return EventForm(subscription: 9, sequence: 10, kind: kind) }
        let newPath = kind == .moved ? bytes + [0x63] : nil
        return EventForm(
            subscription: 9, sequence: 10, kind: kind, path: bytes, newPath: newPath, cause: cause)
    }

    static let serverMessages: [ServerMessage] =
        PresenterRequest.allCases.map { .question(.number(9), question($0)) }
        + PresenterNotice.allCases.map { .news(news($0)) } + EventKind.allCases.map { .event(event($0)) }
}

/// The result of a request, and how the client reads it.
struct ResultSample {
    let response: Response
    let isRead: (JSONValue) -> Bool

    init<Value: Decodable>(_ value: Value, _ response: (Value) -> Response) {
        self.response = response(value)
        isRead = { message in
            do {
                return try ResponseMessage<Value>(decoding: message.encoded()).id != nil
            } catch {
                return false
            }
        }
    }
}

extension MessageSamples {
    static func results(of method: ControlProtocol.Request.Method) -> [ResultSample] {
        switch method {
        case .initialize:
            [ResultSample(InitializeResult(version: "1", pid: 2, mount: mount), Response.initialize)]
        case .status: [ResultSample(status, Response.status)]
        case .register:
            [ResultSample(RegisterResult(presenter: 1, path: bytes, messages: .all), Response.register)]
        case .beginAccess, .prepareAccess:
            [ResultSample(AccessBeginResult(access: 3, intents: intents), Response.beginAccess)]
        case .subscribe:
            [
                ResultSample(
                    SubscribeResult(subscription: 9, epoch: "e", sequence: 4, hasGap: true),
                    Response.subscribe)
            ]
        case .remove, .endAccess, .willMove, .didMove, .unsubscribe:
            [ResultSample(EmptyResult(), Response.done)]
        case .why, .ps: [ResultSample(census, Response.census)]
        case .keptList:
            [ResultSample(KeptListResult(entries: [kept], isTruncated: false), Response.keptList)]
        case .keptRead: [ResultSample(KeptReadResult(content: bytes, isAtEnd: true), Response.keptRead)]
        case .keptKeep: [ResultSample(KeptKeepResult(id: "0123456789abcdef"), Response.keptKeep)]
        }
    }

    private static let intents = [
        IntentForm(bytes, .write(.forMoving)), IntentForm([], .read([.withoutChanges])),
    ]
    private static let mount = MountForm(mountpoint: "/m", source: "/s", user: 1)

    private static let delay = DelayForm(guest: 1, delayed: 2, spent: 3, allowed: 4, left: 5)

    static let census = CensusForm(
        claims: [
            ClaimForm(
                claim: 1, actor: actor, intents: intents, state: "suspended", suspension: "idle",
                exceeded: DelayForm(guest: nil, delayed: nil, spent: 1, allowed: 1, left: 2), age: 2,
                reasons: ["a"])
        ],
        presenters: [
            PresenterForm(
                presenter: 1, actor: actor, path: [], messages: ["save"],
                owed: [OwedForm(request: "save", age: 1, left: 2, actor: actor)], isDemoted: true,
                isUnsaved: true)
        ], delays: [delay])

    private static let around: AroundForm = {
        var around = AroundForm()
        around.shortage = "s"
        return around
    }()

    private static let status = StatusForm(
        mount: mount, pid: 1, version: "1", options: OptionsForm(), counters: CountersForm(), use: UseForm(),
        around: around,
        rules: RulesForm(
            files: [RulesForm.File(path: "/f", problem: "p")],
            programs: [RulesForm.Program(table: "background", name: "n", belongs: true, from: "/f")]),
        delays: [delay], delaysOfAll: [delay],
        waiting: [
            WaitingForm(
                claim: 1, actor: actor, access: "updating", path: bytes, since: 2, holders: [actor])
        ],
        journal: [
            StepForm(
                sequence: 1, milliseconds: 2, step: "granted", claim: 3, actor: actor, path: bytes,
                detail: "d")
        ])

    private static let kept = KeptForm(
        id: "0123456789abcdef", path: bytes, cause: "c", time: 1.25, size: 2, user: 3, group: 4, mode: 0o600)
}
