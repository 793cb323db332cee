// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

/// Messages of every kind with every possible member, and the values that the receiver decodes from them.
enum MessageSamples {
    static let requests = ClientMessageTests.requests + PresenterMessageTests.allRequests

    static let notifications: [ClientNotification] = [
        .progress(.number(3)), .progress(.text("a")), .cancel(.number(-1)), .cancel(.text("")),
        .unsaved(UnsavedParameters(presenter: 7, isUnsaved: true)),
        .unsaved(UnsavedParameters(presenter: 8, isUnsaved: false)),
    ]

    static let answers = [
        AnswerMessage(to: .number(5)),
        AnswerMessage(to: .text("a"), failure: ProtocolFailure(code: -32000, message: "no")),
        AnswerMessage(to: .number(5), failure: .deadlock("no", among: [actor])),
    ]

    static let bytes: [UInt8] = [0x61, 0xFF, 0x2F, 0x62]
    static let actor = ProcessDescriptionForm(pid: 5, user: 6, program: Array("p".utf8), name: "n")
    static let cause = CauseForm(
        pid: 7, program: Array("vi".utf8), user: 1, operation: "read", isOutOfBand: true)

    static func question(_ request: PresenterRequest) -> PresenterQuestion {
        PresenterQuestion(
            request,
            PresenterQuestion.Parameters(
                presenter: 1, path: bytes, turn: 2, deadline: 5000, cause: cause,
                subitem: request == .accommodateSubitemDeletion ? bytes : nil))
    }

    static func noticeMessage(_ notice: PresenterNotice) -> PresenterNoticeMessage {
        let isAboutSubitem: Bool =
            switch notice {
            case .subitemDidAppear, .subitemDidChange, .subitemDidMove: true
            case .subitemDidGain, .subitemDidLose, .subitemDidResolve: true
            case .reacquire, .didChange, .didMove, .didGain, .didLose, .didResolve: false
            }
        let versionNotices: [PresenterNotice] = [
            .didGain, .didLose, .didResolve, .subitemDidGain, .subitemDidLose, .subitemDidResolve,
        ]
        return PresenterNoticeMessage(
            notice,
            PresenterNoticeMessage.Parameters(
                presenter: 1, path: bytes, newPath: notice == .didMove ? bytes + [0x63] : nil, turn: 2,
                sequence: 3, cause: cause, subitem: isAboutSubitem ? bytes : nil,
                newSubitem: notice == .subitemDidMove ? bytes + [0x63] : nil,
                version: versionNotices.contains(notice) ? "0123456789abcdef" : nil))
    }

    static func event(_ kind: EventKind) -> EventForm {
        guard kind != .gap else { return EventForm(subscription: 9, sequence: 10, kind: kind) }
        let newPath = kind == .moved ? bytes + [0x63] : nil
        return EventForm(
            subscription: 9, sequence: 10, kind: kind, path: bytes, newPath: newPath, cause: cause)
    }

    static let serverMessages: [ServerMessage] =
        PresenterRequest.allCases.map { .question(.number(9), question($0)) }
        + PresenterNotice.allCases.map { .noticeMessage(noticeMessage($0)) }
        + EventKind.allCases.map { .event(event($0)) }
        + [.runSuspended(RunSuspendedForm(run: 1, reason: "holdExpired", words: "w"))]
}

/// The result of a request, and the decoder that the client uses for it.
struct ResultSample {
    let response: Response
    let isRead: ([UInt8]) -> Bool

    init<Value: Decodable>(_ value: Value, _ response: (Value) -> Response) {
        self.response = response(value)
        isRead = { message in
            do {
                return try ResponseMessage<Value>(decoding: message).id != nil
            } catch {
                return false
            }
        }
    }
}

extension MessageSamples {
    static func results(of method: ControlProtocol.ClientRequest.Method) -> [ResultSample] {
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
        case .remove, .endAccess, .willMove, .didMove, .unsubscribe, .endRun:
            [ResultSample(EmptyResult(), Response.done)]
        case .why, .ps: [ResultSample(snapshot, Response.snapshot)]
        case .showSettings: [ResultSample(settings, Response.showSettings)]
        case .generation:
            [
                ResultSample(
                    GenerationResult(generation: "e1-2", author: actor, time: 0.5), Response.generation)
            ]
        case .listVersions:
            [ResultSample(VersionListResult(entries: [version], isTruncated: false), Response.listVersions)]
        case .readVersion:
            [ResultSample(VersionReadResult(content: bytes, isAtEnd: true), Response.readVersion)]
        case .preserveVersion:
            [ResultSample(PreserveResult(id: "0123456789abcdef"), Response.preserveVersion)]
        case .beginRun: [ResultSample(RunBeginResult(run: 1, token: "t"), Response.beginRun)]
        case .resolveVersions, .removeVersions, .pruneVersions:
            [ResultSample(VersionChangeResult(count: 2), Response.changeVersions)]
        case .listHistory, .watchHistory:
            [ResultSample(HistoryResult(events: [event], isTruncated: true, last: 7), Response.history)]
        }
    }

    private static var event: HistoryEventForm {
        let actor = HistoryActorForm(program: "sed", pid: 4, user: 5, run: "agent", runPid: 6, runID: "8-1")
        var event = HistoryEventForm(
            number: 7, time: 1.5, kind: "saved-over", path: bytes, newPath: bytes, source: bytes,
            actor: actor)
        (event.author, event.generation) = (actor, "1-2.3")
        (event.version, event.detail) = ("0123456789abcdef", "write")
        return event
    }

    private static let intents = [
        IntentForm(bytes, .write(.forMoving)), IntentForm([], .read([.withoutChanges])),
    ]
    private static let mount = MountForm(mountpoint: "/m", source: "/s", user: 1)

    private static let settings = SettingsResult(settings: [
        SettingForm(
            name: "unseen", value: "fail", programs: ["background"], pattern: "*.md", file: "/f", line: 3),
        SettingForm(name: "unseen", value: "keep"),
    ])

    private static let delay = DelayForm(guest: 1, delayed: 2, spent: 3, allowed: 4, left: 5)

    static let snapshot = CoordinationSnapshotForm(
        claims: [
            ClaimForm(
                claim: 1, actor: actor, intents: intents, state: "suspended", suspension: "idle",
                exceeded: DelayForm(guest: nil, delayed: nil, spent: 1, allowed: 1, left: 2), age: 2,
                reasons: ["a"])
        ],
        presenters: [
            PresenterForm(
                presenter: 1, actor: actor, path: [], messages: ["save"],
                owed: [UnansweredQuestionForm(request: "save", age: 1, left: 2, actor: actor)],
                isDemoted: true,
                isUnsaved: true)
        ], delays: [delay])

    private static let around: SourceWatchForm = {
        var around = SourceWatchForm()
        around.shortage = "s"
        return around
    }()

    private static let status = StatusForm(
        mount: mount, pid: 1, version: "1", options: OptionsForm(), counters: CountersForm(),
        use: ResourceUsageForm(),
        around: around,
        rules: RulesForm(
            files: [RulesForm.File(path: "/f", problem: "p")],
            programs: [RulesForm.Program(table: "background", name: "n", belongs: true, from: "/f")]),
        delays: [delay], delaysOfAll: [delay],
        runs: [
            RunForm(
                run: 1, name: "n", pid: 2, user: 3, write: ["a"], read: ["b"], uncoordinated: true,
                isWaiting: true, suspension: "tooMany", documents: 4)
        ],
        waiting: [
            WaitingClaimForm(
                claim: 1, actor: actor, access: "updating", path: bytes, since: 2, holders: [actor])
        ],
        journal: [
            JournalStepForm(
                sequence: 1, milliseconds: 2, step: "granted", claim: 3, actor: actor, path: bytes,
                detail: "d")
        ])

    private static let version = {
        var version = VersionForm(
            id: "0123456789abcdef", path: bytes, cause: "c", time: 1.25, size: 2, user: 3, group: 4,
            mode: 0o600)
        version.writers = ["w"]
        version.standing = "conflict"
        version.author = VersionActorForm(program: "p", pid: 1, user: 2, run: "r")
        version.saver = VersionActorForm(program: "q")
        (version.read, version.readTime, version.generation) = ("e1-1", 1.5, "e1-2")
        version.setConflictCopy([0xff])
        return version
    }()
}
