// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// What the kernel said last that guests may do, for what others of their presenters and subscriptions are told of the same.
///
/// A look answers for everything that was decided before it began, since the user could see it then; and for a moment only,
/// since rights change.
final class RecentLooks: Sendable {
    private struct Subject: Hashable {
        let user: FileUser
        let path: [UInt8]
        let isOfList: Bool
    }

    private enum Answer {
        case rights(Result<Rights, FindingFailure>)
        case list(Result<FileStatus?, FindingFailure>)
    }

    private struct Look {
        let began: Instant
        let answer: Answer
    }

    private static let most = 1024
    private static let age = Span.seconds(1)

    private let looks = Mutex<[Subject: Look]>([:])
    private let source: any SourceLooking

    init(at source: any SourceLooking) { self.source = source }

    var count: Int { looks.withLock { $0.count } }

    /// The directory below the mount, for what was decided at a moment.
    func since(_ moment: Instant) -> any SourceLooking { Since(moment: moment, looks: self) }

    private struct Since: SourceLooking {
        let moment: Instant
        let looks: RecentLooks

        func rights(of user: FileUser, at path: [UInt8]) throws(FindingFailure) -> Rights {
            let subject = Subject(user: user, path: path, isOfList: false)
            let answer = looks.answer(to: subject, since: moment) { source in
                do throws(FindingFailure) {
                    return .rights(.success(try source.rights(of: user, at: path)))
                } catch {
                    return .rights(.failure(error))
                }
            }
            guard case .rights(let result) = answer else { return [] }
            return try result.get()
        }

        func listable(_ path: [UInt8], by user: FileUser) throws(FindingFailure) -> FileStatus? {
            let subject = Subject(user: user, path: path, isOfList: true)
            let answer = looks.answer(to: subject, since: moment) { source in
                do throws(FindingFailure) {
                    return .list(.success(try source.listable(path, by: user)))
                } catch {
                    return .list(.failure(error))
                }
            }
            guard case .list(let result) = answer else { return nil }
            return try result.get()
        }

        func target(
            of path: [UInt8], as user: FileUser?, within count: inout Int
        ) throws(FindingFailure) -> [UInt8]? {
            try looks.source.target(of: path, as: user, within: &count)
        }
    }

    private func answer(
        to subject: Subject, since moment: Instant, _ look: (any SourceLooking) -> Answer
    ) -> Answer {
        let now = Engine.now
        let known = looks.withLock { $0[subject] }
        if let known, known.began >= moment, now < known.began + Self.age { return known.answer }
        let answer = look(source)
        looks.withLock { looks in
            if looks.count >= Self.most { looks = [:] }
            looks[subject] = Look(began: now, answer: answer)
        }
        return answer
    }
}
