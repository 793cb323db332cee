// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// The kernel's latest answers about the rights of guests. All presenters and subscriptions of a user share these answers.
///
/// An answer is used only for events that happened before the kernel gave the answer. It is used for at most a second, because
/// rights change.
final class RightsCache: Sendable {
    private struct RightsQuery: Hashable {
        let user: FileUser
        let path: [UInt8]
        let isOfList: Bool
    }

    private enum SourceAnswer {
        case rights(Result<Rights, LookupFailure>)
        case list(Result<FileStatus?, LookupFailure>)
    }

    private struct CachedAnswer {
        let began: Instant
        let answer: SourceAnswer
    }

    private static let most = 1024
    private static let age = TimeSpan.seconds(1)

    private let answers = Mutex<[RightsQuery: CachedAnswer]>([:])
    private let source: any SourceInspector

    init(at source: any SourceInspector) { self.source = source }

    var count: Int { answers.withLock { $0.count } }

    /// Returns a view of the directory below the mount. The view uses cached answers that the kernel gave after `moment`.
    func since(_ moment: Instant) -> any SourceInspector { CachedSource(moment: moment, answers: self) }

    private struct CachedSource: SourceInspector {
        let moment: Instant
        let answers: RightsCache

        func rights(of user: FileUser, at path: [UInt8]) throws(LookupFailure) -> Rights {
            let subject = RightsQuery(user: user, path: path, isOfList: false)
            let answer = answers.answer(to: subject, since: moment) { source in
                do throws(LookupFailure) {
                    return .rights(.success(try source.rights(of: user, at: path)))
                } catch {
                    return .rights(.failure(error))
                }
            }
            guard case .rights(let result) = answer else { return [] }
            return try result.get()
        }

        func listableDirectory(_ path: [UInt8], by user: FileUser) throws(LookupFailure) -> FileStatus? {
            let subject = RightsQuery(user: user, path: path, isOfList: true)
            let answer = answers.answer(to: subject, since: moment) { source in
                do throws(LookupFailure) {
                    return .list(.success(try source.listableDirectory(path, by: user)))
                } catch {
                    return .list(.failure(error))
                }
            }
            guard case .list(let result) = answer else { return nil }
            return try result.get()
        }

        func target(
            of path: [UInt8], as user: FileUser?, within count: inout Int
        ) throws(LookupFailure) -> [UInt8]? {
            try answers.source.target(of: path, as: user, within: &count)
        }
    }

    private func answer(
        to subject: RightsQuery, since moment: Instant, _ query: (any SourceInspector) -> SourceAnswer
    ) -> SourceAnswer {
        let now = Engine.now
        let known = answers.withLock { $0[subject] }
        if let known, known.began >= moment, now < known.began + Self.age { return known.answer }
        let answer = query(source)
        answers.withLock { answers in
            if answers.count >= Self.most { answers = [:] }
            answers[subject] = CachedAnswer(began: now, answer: answer)
        }
        return answer
    }
}
