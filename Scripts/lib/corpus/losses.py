# SPDX-License-Identifier: Apache-2.0
"""Losses: a program knows older contents of a document, and saves over a change of another program that it does not know.

A form is a function. It gets the stage and the path of a new document, and returns a line that only the lost contents have.
"""
FORMS = []


def form(function):
    FORMS.append(function)
    return function


def change(stage, terminal, document):
    """Another program changes a line of the document, in one of several ways. Returns the line."""
    line = f"lost {stage.number}"
    terminal.run(stage.chance.choice([
        f"sed -i '3s/.*/{line}/' {document}",
        f"perl -pi -e 's/.*/{line}/ if $. == 3' {document}",
        f"awk 'NR == 3 {{ $0 = \"{line}\" }} 1' {document} >{document}.tmp && mv {document}.tmp {document}",
        f"vim -u NONE -N -n -es -c '3s/.*/{line}/' -c 'set backupcopy=yes' -c 'wq!' {document}",
        f"echo '{line}' >>{document}",
    ]))
    return line


def lose_to_editor(stage, editor, document):
    line = change(stage, stage.terminals[1], document)
    editor.change(1, f"editor {stage.number}")
    editor.save()
    stage.end(editor)
    return line


def lose_to_vim(options, program="vim"):
    def run(stage, document):
        return lose_to_editor(stage, stage.vim(stage.terminals[0], document, program, options), document)
    run.__name__ = f"{program} with {options} holds the text"
    return form(run)


lose_to_vim("backupcopy=no")
lose_to_vim("backupcopy=yes")
lose_to_vim("nowritebackup")
lose_to_vim("backupcopy=auto", "nvim")
lose_to_vim("backupcopy=yes", "nvim")


def lose_to_emacs(name, options):
    def run(stage, document):
        return lose_to_editor(stage, stage.emacs(stage.terminals[0], document, options), document)
    run.__name__ = f"Emacs {name} holds the text"
    return form(run)


lose_to_emacs("that renames a backup", "")
lose_to_emacs("that copies a backup", "(setq backup-by-copying t)")
lose_to_emacs("without backups", "(setq make-backup-files nil)")


def lose_to_agent(reads, writes):
    def run(stage, document):
        first, second = stage.new_agent(stage.terminals[0]), stage.new_agent(stage.terminals[1])
        text, line = first.read(document, reads), f"lost {stage.number}"
        second.write(document, second.read(document, "cat") + line + "\n", stage.chance.choice(["truncate", "rename", "child"]))
        first.write(document, text + f"agent {stage.number}\n", writes)
        stage.end(first)
        stage.end(second)
        return line
    run.__name__ = f"an agent reads by {reads} and writes by {writes}"
    return form(run)


lose_to_agent("cat", "child")
lose_to_agent("self", "truncate")
lose_to_agent("self", "rename")
lose_to_agent("self", "overwrite")
lose_to_agent("self", "size")
lose_to_agent("mmap", "tee")


@form
def two_agents_of_one_script(stage, document):
    """A script starts two agents, so both are in one session and have one parent."""
    first, second = stage.new_pair(stage.terminals[0])
    text, line = first.read(document), f"lost {stage.number}"
    second.write(document, second.read(document) + line + "\n")
    first.write(document, text + f"agent {stage.number}\n")
    stage.end(first)
    stage.end(second)
    return line


@form
def script_of_a_shell(stage, document):
    """A script reads the document into a variable, waits, and writes the variable."""
    script = stage.partner(stage.terminals[0], f"bash $SCRIPTS/hold {document}")
    if script.answer() != "read":
        raise ValueError("the script did not read its document")
    line = change(stage, stage.terminals[1], document)
    if script.ask("write") != "written":
        raise ValueError("the script did not write its document")
    stage.end(script)
    return line
