#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A client of Truce in the language of the shell, with socat and jq: an editor of one file, without a screen.
#
#     client.sh MOUNT FILE FOLDER
#
# Has unsaved text for MOUNT/FILE, and saves it when another program wants to read the file. After another program has
# changed the file it writes the number of lines to FILE.count. Ends when a new file appears in MOUNT/FOLDER.
set -eu

if [ $# -eq 3 ]; then
    # The attribute counts only if the kernel says that the directory is a mount of Truce.
    findmnt --noheadings --types fuse.truce --mountpoint "$1" >/dev/null
    # Root and the owner of the mount have a socket of their own, where they wait behind no others.
    socket=$(getfattr --absolute-names --only-values --name=user.truce.socket.owner "$1" 2>/dev/null) ||
        socket=$(getfattr --absolute-names --only-values --name=user.truce.socket "$1")
    export MOUNT="$1" FILE="$2" FOLDER="$3"
    # The kernel tells the daemon which process has connected: socat. By `nofork` socat becomes this script again, with
    # the socket as its input and output. So the daemon lets this process through to the file.
    exec 3>&1
    cd "$(dirname "$0")"
    exec socat "UNIX-CONNECT:$socket" "EXEC:./${0##*/},nofork"
fi

say() { echo "$*" >&3; }

# request ID METHOD PARAMETERS, those in the language of jq.
request() {
    jq --null-input --compact-output "{jsonrpc: \"2.0\", id: \"$1\", method: \"$2\", params: $3}"
}

# of_message FILTER prints a part of the message.
of_message() { printf '%s\n' "$message" | jq --raw-output "$1"; }

# answer RESULT|ERROR VALUE
answer() { of_message "{jsonrpc: \"2.0\", id, $1: $2} | tojson"; }

unsaved="unsaved words of a shell"
changed=
save() {
    [ -n "$unsaved" ] || return 0
    # Another program has written the file since.
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
    # The present names: a name may have changed during the wait.
    wc -l <"$MOUNT/$(of_message '.result.intents[0].path')" >"$MOUNT/$(of_message '.result.intents[1].path')"
    request counted access/end "{access: $(of_message .result.access)}"
}

request hello initialize '{client: {name: "client.sh", version: "1"}, protocol: {min: 1, max: 1}}'
while read -r message; do
    # A reply has the id of its request.
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
