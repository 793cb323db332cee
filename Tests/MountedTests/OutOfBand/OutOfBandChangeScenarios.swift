// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension MountTests.OutOfBandChangeTests {
    /// The script of all scenarios. It runs as root, or as a user in a mount namespace where all users may use /dev/fuse.
    static let scenarios = Script(
        """
        if [[ $1 = user && $UID = 0 ]]; then
            exec unshare --mount --propagation=private bash -euc '
                mount -t tmpfs none /dev
                mknod -m 666 /dev/null c 1 3
                mknod -m 666 /dev/fuse c 10 229
                text=$1
                shift
                exec setpriv --reuid=65534 --regid=65534 --clear-groups \\
                    bash -euo pipefail -c "$text" script "$@"' \\
                bash "$BASH_EXECUTION_STRING" "$@"
        fi
        if [[ $1 = container ]]; then
            exec unshare --user --map-root-user --mount --propagation=private bash -euc '
                echo 4 >/proc/sys/user/max_inotify_watches
                text=$1
                shift 2
                exec bash -euo pipefail -c "$text" script contained "$@"' \
                bash "$BASH_EXECUTION_STRING" "$@"
        fi
        truce=$2 scenario=$4
        cd "$3"
        mkdir -m 700 run
        mkdir source place source/folder
        export XDG_RUNTIME_DIR=$PWD/run
        echo one >source/document
        echo one >source/second
        "$truce" mount source place -o data="$5" >log
        daemon=$(sed "s/.*pid \\([0-9]*\\).*/\\1/" log)
        server=
        finish() {
            [[ ! $server ]] || kill -CONT "$server"
            "$truce" unmount place
            [[ ! -d behind ]] || fusermount3 -u -z source/slow
            for ((try = 0; try < 1000; try++)); do
                [[ -d /proc/$daemon ]] || return 0
                sleep 0.01
            done
            echo "the daemon goes on"
            exit 1
        }
        trap finish EXIT

        # present NAME [PATH]: starts a presenter of a file in `place`, and waits until the presenter is registered.
        present() {
            local path=place
            [[ $1 = place ]] || path=place/${2:-$1}
            : >"$1.errors"
            "$truce" present --json "$path" >"$1.told" 2>"$1.errors" &
            for ((try = 0; try < 1000; try++)); do
                if [[ $(<"$1.errors") = *presenting* ]]; then return; fi
                sleep 0.01
            done
            echo "$1 is not presented: $(<"$1.errors")"
            exit 1
        }
        # eventually WHAT COMMAND...: waits until the command succeeds, and prints how long this took.
        eventually() {
            local what=$1 start=${EPOCHREALTIME/./}
            shift
            for ((try = 0; try < 2000; try++)); do
                if "$@"; then
                    echo "$what after $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
                    return
                fi
                sleep 0.002
            done
            echo "$what: never"
            exit 1
        }
        has_size() { [[ $(stat --format %s "$1") = "$2" ]]; }
        is_gone() { ! stat "$1" >/dev/null 2>&1; }
        is_listed() { [[ $'\\n'$(ls place)$'\\n' = *$'\\n'"$1"$'\\n'* ]]; }
        has_told() { (($(grep -c "$2" "$1.told") >= $3)); }
        was_told_last() { [[ $(tail --lines=1 "$1.told") = *$2* ]]; }
        # Just after an event, the scenarios write a presented file by `1<>`, which does not truncate. The daemon may still
        # compare the file, and would report the truncation as a further change.

        changes() {
            present document
            present second
            present place
            stat place/document place/second >/dev/null
            ls place >/dev/null
            echo "longer than before" 1<>source/document
            eventually "a write is seen" has_size place/document 19
            eventually "and told" has_told document didChange 1
            echo "a save" >source/document.new
            mv source/document.new source/document
            eventually "a save is seen" has_size place/document 7
            eventually "and told" has_told document didChange 2
            mv source/document source/moved
            eventually "a move is seen" is_listed moved
            eventually "and told" has_told document didMove 1
            mv source/moved source/folder/moved
            eventually "a move elsewhere is seen" is_gone place/moved
            eventually "and told" has_told document didMove 2
            rm source/folder/moved
            eventually "a removal is seen" is_gone place/folder/moved
            eventually "and told" has_told document forDeleting 1
            echo made >source/made
            eventually "a new file is seen" is_listed made
            eventually "and told" has_told place subitemDidAppear 1
            cp source/made source/second
            eventually "cp is told" has_told second didChange 1
            sed -i s/made/edited/ source/second
            eventually "sed is told" has_told second didChange 2
            vim -u NONE -es -c "set backup backupcopy=no" -c "call setline(1, 'by vim')" -c wq source/second
            eventually "vim is told" has_told second didChange 3
            # If an event were sent twice, the second one would come before the event of this last file.
            echo last >source/last
            eventually "the last is told" has_told place '"last"' 1
        }
        directories() {
            present place
            mkdir source/folder/inner
            echo one >source/folder/inner/deep
            # A presenter also gets events of files made just before it registers. After this event both files are reported.
            echo made >source/made
            eventually "what was made is told" has_told place '"made"' 1
            present deep folder/inner/deep
            mv source/folder source/other
            eventually "a move of a directory is told" has_told deep didMove 1
            echo "longer than before" 1<>source/other/inner/deep
            eventually "a write there is told" has_told deep didChange 1
            mv source/other/inner source/folder
            eventually "a move elsewhere is told" has_told deep didMove 2
            rm -r source/folder
            eventually "a removal is told" has_told deep didChange 2
            mkdir elsewhere
            echo again >elsewhere/deep
            mv elsewhere source/folder
            eventually "that it is there again is told" has_told deep didChange 3
            mv source/folder elsewhere
            eventually "a move out of the source is told" has_told deep didChange 4
            mv elsewhere source/folder
            eventually "and one back" has_told deep didChange 5
        }
        # A document is renamed and made anew out of band. A write by its name at this moment must reach the new file.
        backups() {
            python3 -c '
        import os
        for number in range(60):
            with open("place/document") as file:
                file.read()
            os.rename("source/document", "source/document~")
            if number < 30:
                with open("source/document", "w") as file:
                    file.write("theirs")
            flags = (os.O_APPEND, os.O_TRUNC, 0)[number % 3]
            file = os.open("place/document", os.O_WRONLY | os.O_CREAT | flags)
            os.write(file, b"mine")
            os.close(file)
            with open("source/document") as file:
                text = file.read()
            assert text == ("theirsmine", "mine", "miners")[number % 3] if number < 30 else text == "mine", (number, text)
        # Changes of size, mode, times and attributes by the name must also reach the new file.
        place = "place/document"
        steps = [
            (lambda: os.truncate(place, 3), lambda of: of.st_size == 3),
            (lambda: os.chmod(place, 0o611), lambda of: of.st_mode & 0o777 == 0o611),
            (lambda: os.utime(place, (1, 2)), lambda of: of.st_mtime == 2),
            (lambda: os.setxattr(place, "user.mine", b"1"), lambda of: os.listxattr("source/document") == ["user.mine"]),
        ]
        for number in range(40):
            step, holds = steps[number % len(steps)]
            os.stat(place)
            os.rename("source/document", "source/document~")
            with open("source/document", "w") as file:
                file.write("theirs")
            step()
            assert holds(os.stat("source/document")), number
        '
        }
        # A directory is renamed and made anew out of band. Files that are then made, moved and removed by its name are in the
        # new directory.
        successors() {
            python3 -c '
        import os, shutil, socket, struct
        def fill(directory):
            os.makedirs(directory + "/inner")
            for name in "moved", "gone":
                with open(directory + "/inner/" + name, "w") as file:
                    file.write(name)
        def look():
            os.listdir("place/folder/inner")
            os.stat("place/folder/inner/moved"), os.stat("place/folder/inner/gone")
        place = "place/folder/inner/"
        steps = {
            "create": lambda: os.close(os.open(place + "made", os.O_CREAT | os.O_WRONLY)),
            "make": lambda: os.mkdir(place + "made"),
            "symlink": lambda: os.symlink("there", place + "made"),
            "rename": lambda: os.rename(place + "moved", place + "made"),
            "unlink": lambda: os.unlink(place + "gone"),
        }
        os.rmdir("source/folder")
        fill("source/folder")
        for number in range(25):
            way = list(steps)[number % len(steps)]
            look()
            os.rename("source/folder", "source/former")
            fill("source/folder")
            steps[way]()
            former, present = (set(os.listdir("source/" + name + "/inner")) for name in ("former", "folder"))
            assert former == {"moved", "gone"}, (number, way, former)
            assert present != former, (number, way)
            for name in present - former:
                (shutil.rmtree if os.path.isdir("source/folder/inner/" + name) and way == "make" else os.unlink)(
                    "source/folder/inner/" + name)
            shutil.rmtree("source/former")
            for name in former - present:
                with open("source/folder/inner/" + name, "w") as file:
                    file.write(name)
        # A descriptor of a directory still leads to the same directory after it was renamed.
        look()
        directory = os.open(place, os.O_RDONLY)
        os.rename("source/folder", "source/former")
        fill("source/folder")
        for number in range(3):
            os.mkdir(f"made{number}", dir_fd=directory)
        os.fchdir(directory)
        os.close(directory)
        # Requests that the kernel does not retry, and a retry that stands for two requests.
        server = socket.socket(socket.AF_UNIX)
        server.bind("socket")
        capability = struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0)
        try:
            os.setxattr("gone", "security.capability", capability)
        except PermissionError:
            pass
        os.truncate("gone", 1)
        assert sorted(os.listdir(".")) == ["gone", "made0", "made1", "made2", "moved", "socket"]
        '
        }
        # A program renames a file over a document out of band, while another program writes the document through the mount.
        newcomers() {
            coproc {
                while read -r word; do
                    if [[ $word = open ]]; then
                        exec 3>>place/document
                    else
                        printf " finished" >&3
                        exec 3>&-
                    fi
                    echo done
                done
            }
            python3 -c '
        import os
        def tell(word):
            os.write(1, word)
            assert os.read(0, 16) == b"done\\n"
        def write(name, text):
            with open(name, "w") as file:
                file.write(text)
        for number in range(20):
            write("source/next", "former")
            os.stat("place/next")
            tell(b"open\\n")
            write("source/temporary", f"next{number}")
            os.rename("source/temporary", "source/next")
            os.rename("place/next", "place/document")
            tell(b"write\\n")
            with open("place/document") as file:
                assert file.read() == f"next{number}", number
        ' <&"${COPROC[0]}" >&"${COPROC[1]}"
            exec {COPROC[1]}>&-
            wait "$COPROC_PID"
            "$truce" versions place/document >kept
            echo "$(wc -l <kept) of 20 are kept"
            [[ $(wc -l <kept) = 20 ]] || return
            while read -r id _; do "$truce" versions place restore "$id" "restored-$id"; done <kept
            [[ $(cat restored-* | grep --only-matching finished | wc -l) = 20 ]]
        }
        # New directories get a file before the daemon has listed them.
        unseen() {
            echo one >source/third
            ln source/second source/link
            cat place/link >/dev/null
            present document
            present second
            present third
            mkdir source/arch
            mv source/document source/arch/document
            eventually "a move into a new directory is told" has_told document didMove 1
            echo "longer than before" 1<>source/arch/document
            eventually "a write there is told" has_told document didChange 1
            mkdir --parents source/deep/er
            mv source/arch source/deep/er
            eventually "a move of the directory is told" has_told document didMove 2
            echo "again, and longer than before" 1<>source/deep/er/arch/document
            eventually "a write there is told" has_told document didChange 2
            eventually "and seen" has_size place/deep/er/arch/document 30
            mkdir elsewhere
            mv source/deep/er/arch/document elsewhere
            eventually "a move out of the source is told" has_told document forDeleting 1
            mkdir source/found
            mv source/third source/found/third
            stat place/found/third >/dev/null
            eventually "a move that a lookup finds is told" has_told third didMove 1
            echo "longer than before" 1<>source/found/third
            eventually "a write there is told" was_told_last third didChange
            rm source/second
            eventually "that one of two links is gone is told" has_told second forDeleting 1
        }
        # both_are_told NUMBER: waits until both presenters have a first change, and each also has a write to its own file.
        both_are_told() {
            eventually "the one is told" has_told document didChange "$1"
            eventually "the other is told" has_told second didChange "$1"
            echo "number $1 of the one" 1<>source/document
            eventually "a write to the one is told" has_told document didChange $(($1 + 1))
            echo "number $1 of the other" 1<>source/second
            eventually "a write to the other is told" has_told second didChange $(($1 + 1))
        }
        exchange() {
            present document
            present second
            # The daemon is stopped meanwhile, so it finds all three renames finished.
            kill -STOP "$daemon"
            mv source/document source/aside
            mv source/second source/document
            mv source/aside source/second
            kill -CONT "$daemon"
            both_are_told 1
            kill -STOP "$daemon"
            mv source/second source/third
            mv source/document source/second
            echo new >source/document
            kill -CONT "$daemon"
            both_are_told 3
        }
        # Each out-of-band change follows while the daemon still remembers the change through the mount.
        after() {
            present document
            present place
            echo "through the mount" >>place/document
            eventually "a write through the mount is told" has_told document didChange 1
            echo "around it" >>source/document
            eventually "one around it is told" has_told document didChange 2
            echo "a save through the mount" >place/document.new
            mv place/document.new place/document
            eventually "a save through the mount is told" has_told document didChange 3
            echo "a save around it" >source/document.new
            mv source/document.new source/document
            eventually "one around it is told" has_told document didChange 4
            echo "another save" >place/document.new
            mv place/document.new place/document
            eventually "another save is told" has_told document didChange 5
            rm source/document
            eventually "a removal is told" has_told document didChange 6
            # If an event were sent twice, the second one would come before the event of this last file.
            echo last >source/last
            eventually "the last is told" has_told place '"last"' 1
        }
        # write_through NUMBER: the writes and renames of a program through the mount.
        write_through() {
            for ((i = 0; i < 125; i++)); do echo "$i" >>"place/shared$1"; done
            exec 4>>"place/held$1"
            for ((i = 0; i < 125; i++)); do echo "$i" >&4; done
            exec 4>&-
            mv "place/shared$1" "place/moved$1"
            chmod 600 "place/moved$1"
            rm "place/held$1"
        }
        through() {
            present place
            for number in 1 2 3 4; do
                write_through "$number" &
                writers[number]=$!
            done
            wait "${writers[@]}"
            # Events of earlier changes would come before the event of this last file.
            "$truce" status place | grep "around the mount"
            echo last >source/last
            eventually "a file made below is told" has_told place '"last"' 1
        }
        # The memory of the daemon in kB.
        memory() { sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' "/proc/$daemon/status"; }
        burst() {
            present document
            present missing
            present second
            present place
            stat place/document >/dev/null
            echo "through the mount" >>place/second
            ln place/second place/link
            eventually "a write through the mount is told" has_told second didChange 1
            before=$(memory)
            overflow
            echo "longer than before" >source/document
            echo stays >source/survivor
            echo "here now" >source/missing
            kill -CONT "$daemon"
            eventually "the document is seen" has_size place/document 19
            eventually "the document is told" has_told document didChange 1
            # No program has listed the directory yet; a listing would also find the file.
            eventually "what was missing is told" has_told missing didChange 1
            eventually "the directory is told" has_told place '"subitem":{"path":""}' 1
            eventually "the survivor is seen" is_listed survivor
            "$truce" status place | grep "the kernel lost some"
            for ((i = 0; i < 10000; i++)); do : >"source/burst$i"; done
            rm source/burst*
            echo last >source/last
            eventually "a burst later" is_listed last
            [[ $(ls source) = $(ls place) ]]
            after=$(memory)
            read -ra times <"/proc/$daemon/stat"
            echo "the daemon has grown from $before kB to $after kB; $(((times[13] + times[14]) * 10)) ms of CPU"
            ((after < before + 65536))
        }
        # Stops the daemon and makes more changes than the kernel stores events.
        overflow() {
            kill -STOP "$daemon"
            for ((i = 0; i < 10000; i++)); do : >"source/burst$i"; done
            rm source/burst*
        }
        slow() {
            mkdir behind source/slow
            echo one >behind/file
            bindfs -n "$PWD/behind" source/slow
            server=$(pgrep --full "bindfs -n $PWD/behind")
            present document
            present file slow/file
            ls -l place/slow >/dev/null
            kill -STOP "$daemon"
            echo new >source/slow/new
            kill -STOP "$server"
            kill -CONT "$daemon"
            echo "longer than before" 1<>source/document
            eventually "a write beside what does not answer is told" has_told document didChange 1
            overflow
            echo "once more, and longer than that" 1<>source/document
            kill -CONT "$daemon"
            eventually "and one that the kernel had no room for" has_told document didChange 2
            "$truce" status place | grep "the kernel lost some"
        }
        limit() {
            mkdir source/{1..8}
            echo one >source/8/file
            ls -R place >/dev/null
            stat place/8/file >/dev/null
            echo longer >source/8/file
            eventually "a write is seen" has_size place/8/file 7
            "$truce" status place | grep "not all"
            status=0
            "$truce" doctor place || status=$?
            ((status == 5))
        }
        "$scenario"
        "$truce" status place | grep "around the mount"
        """)
}
