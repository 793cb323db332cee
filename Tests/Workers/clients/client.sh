#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A client of Truce as a shell script, with socat and jq. It behaves like an editor of one file, without a screen.
#
#     client.sh MOUNT FILE FOLDER
#
# The client has unsaved text for MOUNT/FILE, and saves it when another program wants to read the file. After another program
# has changed the file, it writes the number of lines to FILE.count. It ends when a new file appears in MOUNT/FOLDER.
set -eu

if [ $# -eq 3 ]; then
    # The attribute with the socket's path counts only if the kernel says that the directory is a mount of Truce.
    findmnt --noheadings --types fuse.truce --mountpoint "$1" >/dev/null
    # Root and the owner of the mount have a socket of their own, so that they do not wait behind other users.
    socket=$(getfattr --absolute-names --only-values --name=user.truce.socket.owner "$1" 2>/dev/null) ||
        socket=$(getfattr --absolute-names --only-values --name=user.truce.socket "$1")
    export MOUNT="$1" FILE="$2" FOLDER="$3"
    # The kernel tells the daemon that the process socat has connected. With `nofork`, the same process then runs this script
    # again, with the socket as its input and output. So the daemon counts the reads and writes of this script as the client's
    # own.
    exec 3>&1
    cd "$(dirname "$0")"
    exec socat "UNIX-CONNECT:$socket" "EXEC:./${0##*/},nofork"
fi

say() { echo "$*" >&3; }

# request ID METHOD PARAMETERS prints a request. PARAMETERS are written in the language of jq.
request() {
    jq --null-input --compact-output "{jsonrpc: \"2.0\", id: \"$1\", method: \"$2\", params: $3}"
}

# of_message FILTER prints the part of the message that the jq filter selects.
of_message() { printf '%s\n' "$message" | jq --raw-output "$1"; }

# answer RESULT|ERROR VALUE prints the answer to the message.
answer() { of_message "{jsonrpc: \"2.0\", id, $1: $2} | tojson"; }

unsaved="unsaved words of a shell"
changed=
save() {
    [ -n "$unsaved" ] || return 0
    # Another program has written the file since this client got its unsaved text.
    [ -z "$changed" ] || return 1
    printf '%s\n' "$unsaved" >"$MOUNT/$(of_message .params.path)" || return
    unsaved=
    say "saved for $(of_message .params.cause.program)"
}

begin_to_count() {
    request counting access/begin "{presenter: $presenter, intents: [
        {path: \$ENV.FILE, access: \"read\", options: [\"withoutChanges\"]},
        {path: (\$ENV.FILE + \".count\"), access: \"forReplacing\"}]}"
}

count() {
    # The message contains the present names, because a file may have been renamed while the access waited.
    wc -l <"$MOUNT/$(of_message '.result.intents[0].path')" >"$MOUNT/$(of_message '.result.intents[1].path')"
    request counted access/end "{access: $(of_message .result.access)}"
}

request hello initialize '{client: {name: "client.sh", version: "1"}, protocol: {min: 1, max: 1}}'
while read -r message; do
    # A reply has the ID of its request, and any other message has a method.
    case $(of_message 'if .error then "failed" else .method // .id end') in
        hello) request registered presenter/register '{path: $ENV.FILE, messages: ["save", "didChange"]}' ;;
        registered)
            presenter=$(of_message .result.presenter)
            request subscribed events/subscribe '{path: $ENV.FOLDER}'
            ;;
        subscribed) say "presenting $FILE" ;;
        presenter/save) if save; then answer result '{}'; else answer error '{code: 1, message: "cannot write"}'; fi ;;
        presenter/didChange)
            changed=yes
            say "changed by $(of_message .params.cause.program)"
            begin_to_count
            ;;
        counting) count ;;
        counted) say "counted the lines" ;;
        events/event)
            [ "$(of_message .params.kind)" = appeared ] || continue
            say "$(of_message '"\(.params.path) appeared by \(.params.cause.program)"')"
            exit
            ;;
        failed)
            of_message .error.message >&2
            exit 1
            ;;
    esac
done
echo "the daemon has hung up" >&2
exit 1
