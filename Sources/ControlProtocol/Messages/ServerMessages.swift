// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The program that caused a question, a notice or an event, and the access by which it did so.
package struct CauseForm: Hashable, Sendable, Codable {
    /// The process id of the program; 0 if the process is unknown.
    package var pid: Int32
    package var program: String
    package var user: UInt32?
    /// The access of the program: `read`, or the write option.
    package var operation: String
    /// True if the program changed the files out of band and not through the mount; missing otherwise.
    package var uncoordinated: Bool?

    package init(
        pid: Int32, program: [UInt8], user: UInt32?, operation: String, isOutOfBand: Bool = false
    ) {
        uncoordinated = isOutOfBand ? true : nil
        self.pid = pid
        self.program = String(decoding: program, as: UTF8.self)
        self.user = user
        self.operation = operation
    }
}

/// A question to a presenter, such as `presenter/save`.
package struct PresenterQuestion: Hashable, Sendable {
    package var request: PresenterRequest
    package var parameters: Parameters

    package struct Parameters: Hashable, Sendable, Codable {
        package var presenter: UInt64
        package var path: String
        package var pathBytes: String?
        package var turn: UInt64
        /// The milliseconds that the presenter has for its answer, counted from the sending of the question.
        package var deadline: UInt64
        package var cause: CauseForm
        /// The path of the item that is to be deleted in the presented directory. Nil if the question is about the presented
        /// item itself, or if the path is unknown.
        package var subitem: PathForm?

        package init(
            presenter: UInt64, path: [UInt8], turn: UInt64, deadline: UInt64, cause: CauseForm,
            subitem: [UInt8]? = nil
        ) {
            self.presenter = presenter
            self.subitem = subitem.map { PathForm($0) }
            (self.path, self.pathBytes) = PathForm(path).parts
            self.turn = turn
            self.deadline = deadline
            self.cause = cause
        }

        /// The bytes of the path; nil if `pathBytes` is not base64.
        package var bytesOfPath: [UInt8]? { PathForm(path, pathBytes).bytes }
    }

    package init(_ request: PresenterRequest, _ parameters: Parameters) {
        self.request = request
        self.parameters = parameters
    }

    package var method: String { "presenter/\(request.rawValue)" }
}

/// A notice to a presenter, such as `presenter/didChange`.
package struct PresenterNoticeMessage: Hashable, Sendable {
    package var notice: PresenterNotice
    package var parameters: Parameters

    package struct Parameters: Hashable, Sendable, Codable {
        package var presenter: UInt64
        /// The path of the presented item. In `didMove`, the path that the item had before the move.
        package var path: String
        package var pathBytes: String?
        /// In `didMove`, the path that the item has after the move; nil in other notices.
        package var newPath: String?
        package var newPathBytes: String?
        /// The path of the item in the presented directory that the notice is about. If the item moved, this is the path before
        /// the move.
        ///
        /// It is nil if the notice is about the presented item itself, or if the name is unknown.
        package var subitem: PathForm?
        /// In `subitemDidMove`, the path that the item in the directory has after the move; nil in other notices.
        package var newSubitem: PathForm?
        package var turn: UInt64
        /// The number of the notice. It grows by one with each notice that a connection is sent.
        package var sequence: UInt64
        package var cause: CauseForm
        /// The ID of the version that the item gained or lost, or that was resolved. Nil in all other notices, and if the client
        /// missed such notices.
        package var version: String?

        package init(
            presenter: UInt64, path: [UInt8], newPath: [UInt8]? = nil, turn: UInt64, sequence: UInt64,
            cause: CauseForm, subitem: [UInt8]? = nil, newSubitem: [UInt8]? = nil, version: String? = nil
        ) {
            self.version = version
            self.presenter = presenter
            self.subitem = subitem.map { PathForm($0) }
            self.newSubitem = newSubitem.map { PathForm($0) }
            (self.path, self.pathBytes) = PathForm(path).parts
            if let newPath { (self.newPath, self.newPathBytes) = PathForm(newPath).parts }
            self.turn = turn
            self.sequence = sequence
            self.cause = cause
        }

        /// The bytes of `path`; nil if `pathBytes` is not base64.
        package var bytesOfPath: [UInt8]? { PathForm(path, pathBytes).bytes }
        /// The bytes of `newPath`; nil if the item did not move, or if `newPathBytes` is not base64.
        package var bytesOfNewPath: [UInt8]? { newPath.flatMap { PathForm($0, newPathBytes).bytes } }
    }

    package init(_ notice: PresenterNotice, _ parameters: Parameters) {
        self.notice = notice
        self.parameters = parameters
    }

    package var method: String { "presenter/\(notice.rawValue)" }
}

/// A message of the server that is not the reply to a request.
package enum ServerMessage: Hashable, Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params }

    case question(MessageID, PresenterQuestion)
    case noticeMessage(PresenterNoticeMessage)
    case event(EventForm)
    case runSuspended(RunSuspendedForm)

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        switch self {
        case .question(let id, let question):
            try container.encode(id, forKey: .id)
            try container.encode(question.method, forKey: .method)
            try container.encode(question.parameters, forKey: .params)
        case .noticeMessage(let noticeMessage):
            try container.encode(noticeMessage.method, forKey: .method)
            try container.encode(noticeMessage.parameters, forKey: .params)
        case .event(let event):
            try container.encode(EventForm.method, forKey: .method)
            try container.encode(event, forKey: .params)
        case .runSuspended(let form):
            try container.encode(RunSuspendedForm.method, forKey: .method)
            try container.encode(form, forKey: .params)
        }
    }

    /// Encodes the message as one line of JSON, without a line break at the end.
    package func encoded() throws -> [UInt8] { try JSONCodec.encode(self) }
}
