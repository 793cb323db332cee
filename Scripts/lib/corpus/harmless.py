# SPDX-License-Identifier: Apache-2.0
"""Harmless overwrites: each replaces contents of another program, and either knows these contents or uses no contents at all.

An idiom is a function. It gets the stage, a terminal and the path of a document, and returns how many documents it overwrites.
"""
import os
import shlex

IDIOMS = []


def idiom(program, kind="text"):
    """Adds a function to the idioms of a program. The kind says which documents it can overwrite."""
    def add(function):
        IDIOMS.append((program, kind, function))
        return function
    return add


def shell(program, command, kind="text"):
    """Adds an idiom that is a command. In it, $d is the document, $n a number, and $t a text beside the mount."""
    def run(stage, terminal, document):
        new = stage.new_text()
        terminal.run(f"d={shlex.quote(document)} n={stage.number} t={new}")
        terminal.run(command)
        return 1
    run.__name__ = f"{program}: {command}"
    IDIOMS.append((program, kind, run))


# Programs that read a document and write it anew.
shell("sed", r'sed -i "1s/.*/sed $n/" $d')
shell("sed", r'sed "6s/.*/sed $n/" $d >$d.tmp && mv $d.tmp $d')
shell("perl", r'perl -pi -e "s/.*/perl $n/ if $. == 2" $d')
shell("awk", r'''awk -v n=$n 'NR == 3 { $0 = "awk " n } 1' $d >$d.tmp && mv $d.tmp $d''')
shell("sort", r'sed "s/^sort .*/sort $n/" $d | sort -R -o $d.tmp && mv $d.tmp $d')
shell("sort", r'sort -o $d $d && echo $n >>$d')
shell("sponge", r'sed "4s/.*/sponge $n/" $d | sponge $d')
shell("ed", r'printf "4c\ned %d\n.\nw\nq\n" $n | ed -s $d')
shell("patch", r'sed "4s/.*/patch $n/" $d >$t; diff -u $d $t >$t.diff; patch -s --no-backup-if-mismatch $d $t.diff')
shell("python", r'''python3 -c "import sys; p, n = sys.argv[1:]
t = open(p).read(); open(p, 'w').write('python ' + n + t[t.index(chr(10)):])" $d $n''')
shell("python", r'''python3 -c "import os, sys; p, n = sys.argv[1:]
t = open(p).read(); open(p + '~new', 'w').write(t + 'python ' + n + chr(10)); os.replace(p + '~new', p)" $d $n''')
shell("python", r'''python3 -c "import sys; p, n = sys.argv[1:]
f = open(p, 'r+'); t = f.read(); f.seek(0); f.truncate(); f.write(t + n + chr(10))" $d $n''')
shell("bash", r'bash $SCRIPTS/rewrite $d $n')
shell("bash", r'''v=$(sed "5s/.*/bash $n/" $d); printf '%s\n' "$v" >$d''')
for _copy in ("yes", "no", "auto"):
    shell("vim", rf'vim -u NONE -N -n -es -c "set backupcopy={_copy}" -c "1s/.*/vim $n/" -c "wq!" $d')
    shell("nvim", rf'nvim --clean -n -es -c "set backupcopy={_copy}" -c "1s/.*/nvim $n/" -c "wq!" $d')
shell("vim", r'vim -u NONE -N -n -es -c "set nowritebackup" -c "1s/.*/vim $n/" -c "wq!" $d')
shell("jq", r'jq ".n = $n" $d >$d.tmp && mv $d.tmp $d', "json")
shell("python", r'''python3 -c "import json, sys; p, n = sys.argv[1:]; v = json.load(open(p))
v['python'] = n; json.dump(v, open(p, 'w'), indent=1)" $d $n''', "json")
shell("perl", r'''perl -e 'my ($p, $n) = @ARGV; open F, "<", $p; local $/; my $t = <F>; close F;
$t =~ s/"n": *\d*/"n": $n/; open F, ">", $p; print F $t' $d $n''', "json")

# Programs that write a document without any knowledge of it.
shell("cp", "cp $t $d")
shell("install", "install -m 644 $t $d")
shell("mv", "mv $t $d")
shell("dd", "dd if=$t of=$d status=none")
shell("tee", "tee $d <$t >$t.log")
shell("bash", "cat $t >$d")
shell("bash", "{ date; cat $t; } >$d")
shell("truncate", "truncate -s 0 $d; cat $t >>$d")
shell("rsync", "rsync --checksum $t $d")
shell("rsync", "rsync --checksum --inplace $t $d")
shell("tar", "tar -cf $t.tar -C $(dirname $d) $(basename $d); cp $t $d; tar -xf $t.tar -C $(dirname $d)")
shell("cp", '''printf '{"n": %d}\\n' $n >$t; cp $t $d''', "json")


@idiom("append")
def appends(stage, terminal, document):
    """Appends destroy nothing."""
    terminal.run(f"echo {stage.number} >>{document}; echo {stage.number} | tee -a {document} >{stage.place}/tee")
    return 0


@idiom("agent")
def agent_that_reads_by_cat(stage, terminal, document):
    """The agent reads by a child, and writes by another child or itself."""
    agent = stage.agent(terminal)
    by = stage.chance.choice(["child", "tee", "truncate", "rename", "overwrite", "size"])
    agent.write(document, agent.read(document, stage.chance.choice(["cat", "self", "mmap"])) + f"agent {stage.number}\n", by)
    return 1


@idiom("agent")
def agent_that_merges(stage, terminal, document):
    """The agent writes from memory, but its text has each line that another program wrote meanwhile."""
    agent = stage.agent(terminal)
    text = agent.read(document)
    stage.other(terminal).run(f"echo 'meanwhile {stage.number}' >>{document}; sed -i '$s/$/!/' {document}")
    agent.write(document, text + f"meanwhile {stage.number}!\nagent {stage.number}\n")
    return 2


@idiom("editor")
def editor_that_reloads(stage, terminal, document):
    """An editor is open all the time. It reads the document again before it changes and saves it.

    The editor inserts lines. Editors read a file in the same way to load it and to back it up. So a save within 2 s of a load
    counts as a save of older text, and only its contents show that nothing is lost.
    """
    editor, known = stage.editor(document)
    editor.reload()
    editor.insert(1, f"editor {stage.number}")
    editor.save()
    if stage.chance.random() < 0.5:
        editor.insert(2, f"again {stage.number}")
        editor.save()
        return 1 + known
    return 1


@idiom("formatter")
def formatter_beside_an_editor(stage, terminal, document):
    """A formatter runs after each save of an editor, and the editor reads what the formatter wrote."""
    editor, _ = stage.editor(document)
    editor.reload()
    editor.insert(1, f"editor {stage.number}")
    editor.save()
    terminal.run(f"sed -i '2s/.*/formatted {stage.number}/' {document}")
    editor.reload()
    editor.insert(3, f"editor {stage.number}")
    editor.save()
    return 3


@idiom("make", "none")
def make_over_an_edited_result(stage, terminal, _):
    """A generated file is changed by hand, and then made anew."""
    where = stage.mount + "/make"
    if stage.is_first("make"):
        terminal.run(f"mkdir {where}; printf 'result: source\\n\\ttr a-z A-Z <source >result\\n' >{where}/Makefile")
        terminal.run(f"echo source >{where}/source; make -s -C {where}")
    stage.other(terminal).run(f"sed -i '1s/.*/result {stage.number}/' {where}/result")
    terminal.run(f"sed -i '1s/.*/source {stage.number}/' {where}/source; make -s -B -C {where}")
    stage.other(terminal).run(f"grep -q 'SOURCE {stage.number}' {where}/result")
    return 3


@idiom("sqlite", "none")
def database(stage, terminal, _):
    """Two terminals write one database."""
    path = stage.mount + "/database.db"
    terminal.run(f"sqlite3 {path} 'CREATE TABLE IF NOT EXISTS t(n); INSERT INTO t VALUES({stage.number})'")
    stage.other(terminal).run(f"sqlite3 {path} 'UPDATE t SET n = n + 1'")
    return 2


@idiom("git", "none")
def repository(stage, terminal, _):
    """Two terminals work in one repository; editors change files between the commands of git."""
    # The files' lines are numbers, and each edit must change a line.
    where, other, n = stage.mount + "/repository", stage.other(terminal), f"edit {stage.number}"
    if stage.is_first("git"):
        terminal.run(f"git init -q {where}; for f in a b c; do seq 20 >{where}/$f; done; cd {where}")
        terminal.run("git add . && git commit -qm first; cd - >/dev/null")
    terminal.run(f"cd {where}")
    other.run(f"cd {where}")
    terminal.run(f"sed -i '1s/.*/{n}/' a; perl -pi -e 's/.*/{n}/ if $. == 1' b; git commit -qam changed")
    other.run(f"git checkout -q -b topic HEAD~1 && sed -i '1s/.*/{n}/' c && git commit -qam topic")
    terminal.run("git checkout -q main && git merge -q --no-edit topic && git branch -qd topic")
    other.run(f"sed -i '10s/.*/{n}/' a")
    terminal.run("git stash -q")
    other.run(f"vim -u NONE -N -n -es -c '10s/.*/{n}/' -c 'wq!' b; git commit -qam edited")
    terminal.run("git stash pop -q && git commit -qam popped")
    other.run("git reset -q --hard HEAD~1")
    terminal.run("git cherry-pick ORIG_HEAD >/dev/null")
    other.run(f"git checkout -q -b side HEAD~1 && sed -i '20s/.*/{n}/' c && git commit -qam side")
    terminal.run("git rebase -q main && git checkout -q main && git merge -q side && git branch -qd side")
    terminal.run("cd - >/dev/null")
    other.run("cd - >/dev/null")
    # The files that the commands above replaced, one after the other.
    return 2 + 3 + 3 + 1 + 1 + 1 + 1 + 1 + 1 + 2 + 3
