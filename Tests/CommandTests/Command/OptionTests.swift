// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Coordination
import CoordinationEngine
import Testing
import truce

/// Issue 2, point 6: "options -o wait=, hold=, hold-aware=, idle=, lockwait=, policy=proceed|fail,
/// allow_other, ro; unknown ones refused by name".
struct OptionTests {
    @Test(
        "the line user_allow_other is found in fuse.conf, but not in a comment",
        arguments: [
            ("user_allow_other\n", true), ("# user_allow_other\nmount_max = 9\n", false),
            ("mount_max = 9\n\tuser_allow_other \n# all\n", true), ("user_allow_others\n", false),
        ])
    func userAllowOtherIsFoundInFuseConf(text: String, isAllowed: Bool) {
        #expect(FuseConfiguration.allowsOther(Array(text.utf8)) == isAllowed)
    }

    static let durations: [(String, UInt64?)] = [
        ("15", 15_000), ("15s", 15_000), ("250ms", 250), ("2m", 120_000), ("0", 0), ("0ms", 0),
        ("24h", nil), ("1440m", 86_400_000), ("1441m", nil), ("86400", 86_400_000), ("86401", nil), ("", nil),
        ("s", nil), ("ms", nil), ("-1", nil), ("+1", nil), ("1.5s", nil), (" 1", nil), ("1 s", nil),
        ("1S", nil), ("99999999999999999999", nil), ("0x10", nil), ("१", nil),
    ]

    @Test("a time is a number with the unit s, ms or m, or without a unit in seconds", arguments: durations)
    func aTimeInAnOptionIsANumberWithOrWithoutAUnit(text: String, milliseconds: UInt64?) {
        #expect(TimeSpan(parsing: text) == milliseconds.map { TimeSpan.milliseconds($0) })
    }

    static func options(_ change: (inout MountOptions) -> Void) -> MountOptions {
        var options = MountOptions()
        change(&options)
        return options
    }

    static let accepted: [([String], MountOptions)] = [
        ([], MountOptions()),
        (
            ["wait=3,hold=4s", "hold-aware=5s"],
            options { options in
                options.bounds.wait = .seconds(3)
                options.bounds.hold = .seconds(4)
                options.bounds.holdAware = .seconds(5)
            }
        ),
        (
            ["idle=1ms,lockwait=2ms"],
            options { options in
                options.bounds.idle = .milliseconds(1)
                options.bounds.lockwait = .milliseconds(2)
            }
        ),
        (
            ["relinquish=1ms,save=2s,deletion=3m,ask-again=0,ask-again-stat=4s,guest-delay=5m"],
            options { options in
                options.bounds.relinquish = .milliseconds(1)
                options.bounds.save = .seconds(2)
                options.bounds.deletion = .seconds(180)
                options.bounds.askAgain = .milliseconds(0)
                options.bounds.askAgainStat = .seconds(4)
                options.bounds.guestDelay = .seconds(300)
            }
        ),
        (
            ["policy=fail,data=daemon"],
            options { options in
                options.bounds.policy = .fail
                options.data = .daemon
            }
        ),
        (
            ["allow_other,ro,nosuid,nodev,noexec"],
            options { options in
                options.allowOther = true
                options.readOnly = true
                options.nosuid = true
                options.nodev = true
                options.noexec = true
            }
        ),
        (["ro,rw", "noexec,exec,nodev,dev,nosuid,suid"], MountOptions()),
        (["wait=1,wait=2"], options { $0.bounds.wait = .seconds(2) }),
        ([",,wait=2,"], options { $0.bounds.wait = .seconds(2) }),
        // Options that mount(8) passes to its helper are accepted and change nothing.
        (["rw,dev,suid,exec,relatime,noatime,defaults,_netdev,nofail,noauto,user,users"], MountOptions()),
        (["x-systemd.automount,x-gvfs-show,comment=a=b"], MountOptions()),
        (["rw,silent,loud,async,nomand,nolazytime,user=ada,owner,group"], MountOptions()),
    ]

    @Test("each accepted mount option sets its value", arguments: accepted)
    func mountOptionsAreParsed(lists: [String], expected: MountOptions) throws {
        #expect(try MountOptions(parsing: lists) == expected)
    }

    @Test("the command and the daemon parse mount options to the same values", arguments: accepted)
    func theCommandAndTheDaemonParseMountOptionsEqually(lists: [String], expected: MountOptions) throws {
        #expect(try MountOptions(parsing: [expected.words.joined(separator: ",")]) == expected)
    }

    static let refused: [(String, [String])] = [
        ("bogus", ["'bogus'", "wait="]), ("bogus=1", ["'bogus'"]), ("WAIT=1", ["'WAIT'"]),
        ("wait", ["'wait'", "wait=15s"]), ("wait=", ["'wait'", "''"]),
        ("hold=soon", ["'hold'", "'soon'", "hold=15s"]),
        ("policy=maybe", ["'policy'", "'maybe'", "policy=fail"]), ("policy", ["'policy'"]),
        ("data=fast", ["'data'", "'fast'", "data=daemon"]), ("ro=1", ["'ro'"]), ("x", ["'x'"]),
        ("allow-other", ["'allow-other'"]), ("remount", ["unmount it"]), ("sync", ["'sync'"]),
        ("uid=5", ["'uid'"]), ("save=never", ["'save'", "'never'", "save=15s"]),
    ]

    @Test("the error for an invalid mount option names the option and a valid form", arguments: refused)
    func anInvalidMountOptionIsRefused(word: String, mentioned: [String]) {
        let failure = #expect(throws: CommandFailure.self) { try MountOptions(parsing: ["wait=1," + word]) }
        #expect(failure?.status == .usage)
        for text in mentioned {
            #expect(failure?.message.contains(text) == true, "\(failure?.message ?? "")")
        }
    }

    @Test("`mount -s` ignores unknown options, but refuses known options with invalid values")
    func theSloppyFlagIgnoresUnknownOptions() throws {
        let words = ["colour=blue,hold=2s,uid=5", "sync"]
        let options = try MountOptions(parsing: words, ignoringUnknown: true)
        #expect(options == Self.options { $0.bounds.hold = .seconds(2) })
        for wrong in ["hold=soon", "policy=perhaps", "ro=1", "remount"] {
            #expect(throws: CommandFailure.self) { try MountOptions(parsing: [wrong], ignoringUnknown: true) }
        }
    }

    @Test("-oWORD is parsed as -o WORD, but not after -- and not in other commands")
    func anOptionJoinedToDashOIsParsedAsASeparateWord() {
        #expect(
            MountOptions.separatingJoined(["mount", "a", "-owait=1", "-o", "ro"])
                == ["mount", "a", "-o", "wait=1", "-o", "ro"])
        #expect(MountOptions.separatingJoined(["mount", "--", "-ofile"]) == ["mount", "--", "-ofile"])
        #expect(MountOptions.separatingJoined(["kept", "-ofile"]) == ["kept", "-ofile"])
    }
}
