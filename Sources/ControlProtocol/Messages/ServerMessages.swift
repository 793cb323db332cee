// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The program and its access that caused a question or a notice.
package struct CauseForm: Hashable, Sendable, Codable {
    /// 0 if the process is unknown.
    package var pid: Int32
    package var program: String
    package var user: UInt32?
    /// `read`, or the write option.
    package var operation: String
    /// True for changes out of band; missing otherwise.
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
        /// Milliseconds from the sending of the question.
        package var deadline: UInt64
        package var cause: CauseForm
        /// The item in the directory that is to be deleted; nil for the presented item itself, or if its name is unknown.
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

        /// Nil if `pathBytes` is not base64.
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
        /// The path of the item; for `didMove`, its former path.
        package var path: String
        package var pathBytes: String?
        /// For `didMove` only.
        package var newPath: String?
        package var newPathBytes: String?
        /// The item in the directory, by its former name if it moved.
        ///
        /// Nil for the presented item itself, or if the name is unknown.
        package var subitem: PathForm?
        /// For `subitemDidMove` only.
        package var newSubitem: PathForm?
        package var turn: UInt64
        /// Grows by one with each notice of a connection.
        package var sequence: UInt64
        package var cause: CauseForm

        package init(
            presenter: UInt64, path: [UInt8], newPath: [UInt8]? = nil, turn: UInt64, sequence: UInt64,
            cause: CauseForm, subitem: [UInt8]? = nil, newSubitem: [UInt8]? = nil
        ) {
            self.presenter = presenter
            self.subitem = subitem.map { PathForm($0) }
            self.newSubitem = newSubitem.map { PathForm($0) }
            (self.path, self.pathBytes) = PathForm(path).parts
            if let newPath { (self.newPath, self.newPathBytes) = PathForm(newPath).parts }
            self.turn = turn
            self.sequence = sequence
            self.cause = cause
        }

        /// Nil if `pathBytes` is not base64.
        package var bytesOfPath: [UInt8]? { PathForm(path, pathBytes).bytes }
        /// Nil unless the item moved.
        package var bytesOfNewPath: [UInt8]? { newPath.flatMap { PathForm($0, newPathBytes).bytes } }
    }

    package init(_ notice: PresenterNotice, _ parameters: Parameters) {
        self.notice = notice
        self.parameters = parameters
    }

    package var method: String { "presenter/\(notice.rawValue)" }
}

/// A message that the server sends without a request.
package enum ServerMessage: Hashable, Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params }

    case question(MessageID, PresenterQuestion)
    case noticeMessage(PresenterNoticeMessage)
    case event(EventForm)

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
        }
    }

    /// The message as one line of JSON, without the line break.
    package func encoded() throws -> [UInt8] { try JSONCodec.encode(self) }
}
