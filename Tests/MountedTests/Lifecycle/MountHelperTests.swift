// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Runs `truce` as the mount helper of mount(8), in mount namespaces whose `/sbin` contains only this helper.
extension MountTests {
    @Suite struct MountHelperTests {
        @Test("`mount -t fuse.truce` makes a mount that findmnt shows and umount removes")
        func mountWithTheTypeFuseTruceCallsTheMountHelper() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("with space")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.fuse.truce
                    cd "$2"
                    mount -t fuse.truce . . -o ro,noexec,_netdev,nofail,x-systemd.automount,x-foo=bar,wait=3s
                    findmnt --noheadings --types fuse.truce --output SOURCE,TARGET,FSTYPE "$2"
                    findmnt --noheadings --types fuse.truce --output OPTIONS "$2"
                    "$1" status --json "$2"
                    cd /
                    umount "$2"
                    findmnt --noheadings -t fuse.truce -o TARGET | { grep -cF "$2" || true; }' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            let lines = outcome.text.split(separator: "\n").map(String.init)
            try #require(lines.count == 4, "\(outcome.text)")
            #expect(lines[0].split(separator: " ").last == "fuse.truce")
            #expect(lines[0].contains(directory))
            #expect(Set(lines[1].split(separator: ",")).isSuperset(of: ["ro", "noexec"]))
            #expect(try MountStatus(json: Array(lines[2].utf8)).options.wait == 3000)
            #expect(lines[3] == "0")
            #expect(outcome.errorText.isEmpty)
        }

        @Test("A line of fstab makes an in-place mount, and another line makes a mount outside its source")
        func eachLineOfFstabForTruceMakesAMount() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("fstab")
            try FileContents.write(
                """
                none \(directory)/docs truce rw,nofail,noauto,user,x-systemd.automount,comment=a,wait=10s 0 0
                \(directory)/my\\040docs \(directory)/view fuse.truce defaults,ro,save=3s 0 0

                """, to: directory + "/fstab")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.truce
                    ln -s "$1" /sbin/mount.fuse.truce
                    cd "$2"
                    mkdir docs view "my docs"
                    for place in docs view; do
                        mount --fstab fstab "$2/$place"
                        findmnt --noheadings --raw --types fuse.truce --output SOURCE,OPTIONS "$2/$place"
                        "$1" status "$place" | grep ^options:
                        "$1" unmount "$place"
                    done' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            let lines = outcome.text.split(separator: "\n").map(String.init)
            try #require(lines.count == 4, "\(outcome.text)")
            // For mount(8), the option `user` implies further flags. The mount has these flags as well.
            #expect(lines[0].hasPrefix("\(directory)/docs rw,nosuid,nodev,noexec"))
            #expect(lines[1].contains("wait=10000ms"))
            #expect(lines[2].hasPrefix("\(directory)/my\\x20docs ro"))
            #expect(lines[3].contains("save=3000ms"))
        }

        @Test("mount.fuse3(8) makes a mount by way of a shell")
        func mountFuse3CallsTheMountHelper() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("mount-fuse")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mkdir "$2/bin" "$2/docs"
                    cp /sbin/mount.fuse3 "$2/bin/mount.fuse"
                    ln -s "$1" "$2/bin/truce"
                    mount --bind "$2/bin" /sbin
                    PATH=$2/bin:$PATH mount -t fuse.truce "$2/docs" "$2/docs" -o nofail,hold=2s
                    "$1" status --json "$2/docs"
                    "$1" unmount "$2/docs"' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            #expect(try MountStatus(json: outcome.output).options.hold == 2000)
        }

        @Test("mount.fuse3's option drop_privileges is refused at once, with the reason")
        func theOptionDropPrivilegesIsRefused() throws {
            guard Self.isRoot, try Lab.dataPath == .passthrough else {
                return print("root has privileges to drop: shown by the run as root with passthrough")
            }
            let directory = try Lab.freshDirectory("unprivileged")
            let outcome = try Script(
                """
                mkdir "$2/bin"
                cp "$1" "$2/bin/truce"
                mkdir "$2/source"
                PATH=$2/bin:$PATH exec unshare --mount --propagation=private \
                    mount.fuse3 "truce#$2/source" "$2/source" -o drop_privileges
                """
            ).attempt(try Lab.variable("TRUCE_BINARY"), directory)
            #expect(outcome.ending == .exited(1))
            #expect(outcome.errorText.hasPrefix("truce: 'drop_privileges' takes away the rights"))
        }

        @Test("A failed mount by mount(8) prints one sentence and ends with an exit code of mount(8)")
        func mountFailuresGiveMount8ExitCodes() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("refused")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -uc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.truce
                    ln -s "$1" /sbin/mount.fuse.truce
                    cd "$2"
                    mkdir docs other
                    say() { echo "$? $(wc -l <errors) $(cat errors)"; }
                    mount -t truce docs docs -o colour=blue 2>errors; say
                    mount -t truce none/such docs 2>errors; say
                    program=/sbin/mount.truce
                    "$program" docs 2>errors; say
                    "$program" docs docs -t ext4 2>errors; say
                    mount -t truce docs docs 2>errors; say
                    mount -t truce docs docs 2>errors; say
                    mount -t truce docs other 2>errors; say
                    mount -o remount,wait=1s docs 2>errors; say
                    "$1" unmount docs; say
                    findmnt --noheadings -t fuse.truce -o TARGET | { grep -cF "$2" || true; }' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            let lines = outcome.text.split(separator: "\n").map(String.init)
            let expected = [
                ("1 1 mount.truce: ", "'colour'"), ("32 1 mount.truce: ", "none/such"),
                ("1 1 mount.truce: ", "SOURCE DIR"), ("1 1 mount.truce: ", "'ext4'"), ("0 0 ", ""),
                ("32 1 mount.truce: ", "already mounted"), ("32 1 mount.truce: ", "inside"),
                ("1 1 mount.fuse.truce: ", "unmount it"), ("0 1 ", ""), ("0", ""),
            ]
            try #require(lines.count == expected.count, "\(outcome.text)")
            for (line, (start, word)) in zip(lines, expected) {
                #expect(line.hasPrefix(start) && (word.isEmpty || line.contains(word)), "\(line)")
            }
        }

        @Test("`mount --all` also succeeds if the lines of fstab are already mounted")
        func mountAllSucceedsIfTheLinesOfFstabAreAlreadyMounted() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("again")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -uc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.fuse.truce
                    cd "$2"
                    mkdir named nameless
                    echo "$2/named $2/named fuse.truce rw 0 0" >table
                    echo "none $2/nameless fuse.truce rw 0 0" >>table
                    for round in 1 2; do
                        mount --all --fstab table; echo $?
                        findmnt --noheadings -t fuse.truce -o TARGET | { grep -cF "$2" || true; }
                    done
                    "$1" unmount named; "$1" unmount nameless; echo $?' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            #expect(outcome.text == "0\n2\n0\n2\n0\n", "\(outcome.text)\(outcome.errorText)")
        }

        @Test("mount -f mounts nothing, -s ignores unknown options, and -v prints the options")
        func theFlagsOfTheMountHelperTakeEffect() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("flags")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.truce
                    mount -f -v -t truce "$2" "$2" -o hold=2s
                    findmnt --noheadings -t fuse.truce -o TARGET | { grep -cF "$2" || true; }
                    mount -s -t truce "$2" "$2" -o colour=blue,hold=3s
                    "$1" status "$2" | grep ^options:
                    "$1" unmount "$2"' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            let lines = outcome.text.split(separator: "\n").map(String.init)
            try #require(lines.count == 4, "\(outcome.text)")
            #expect(lines[0].contains("hold=2000ms"))
            #expect(lines[1].contains("nothing was mounted"))
            #expect(lines[2] == "0")
            #expect(lines[3].contains("hold=3000ms"))
        }

        @Test("`mount --namespace` mounts in the given namespace, and not in the namespace of the command")
        func theNamespaceFlagMountsInTheGivenNamespace() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("namespace")
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.truce
                    mkfifo "$2/ready" "$2/done"
                    mkdir "$2/docs"
                    unshare --mount --propagation=private bash -c "echo >\\"\\$1/ready\\"; read <\\"\\$1/done\\"" \\
                        bash "$2" &
                    read <"$2/ready"
                    mount --namespace "$!" -t truce "$2/docs" "$2/docs"
                    findmnt --noheadings -t fuse.truce -o TARGET | { grep -cF "$2" || true; }
                    findmnt --task "$!" --noheadings --types fuse.truce --output FSTYPE --mountpoint "$2/docs"
                    umount --namespace "$!" "$2/docs"
                    echo >"$2/done"
                    wait' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            #expect(outcome.text == "0\nfuse.truce\n", "\(outcome.errorText)")
        }

        @Test("The empty directory of an automounter is refused as a source")
        func anAutomountDirectoryIsRefusedAsSource() throws {
            guard Self.isRoot else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("automounter")
            // The script runs in the process group of the automounter. This group may use the mountpoint while all other
            // programs wait for the mount.
            let outcome = try Script(
                """
                exec unshare --mount --propagation=private bash -uc '
                    cd "$2"
                    mkdir docs
                    mkfifo requests
                    exec 5<>requests
                    options=fd=5,pgrp=$$,minproto=5,maxproto=5,direct
                    mount -i -t autofs -o "$options" none docs 2>errors || { echo none; exit 0; }
                    "$1" mount docs >/dev/null 2>errors
                    echo "$? $(wc -l <errors) $(cat errors)"
                    "$1" unmount --lazy docs 2>/dev/null' bash "$1" "$2"
                """
            ).attempt(try Lab.variable("TRUCE_BINARY"), directory)
            if outcome.text == "none\n" { return print("this kernel has no autofs: shown where it has") }
            #expect(outcome.text.hasPrefix("1 1 truce: "), "\(outcome.text)")
            #expect(outcome.text.contains("leave x-systemd.automount out"), "\(outcome.text)")
        }

        private static var isRoot: Bool { geteuid() == 0 }
    }
}
