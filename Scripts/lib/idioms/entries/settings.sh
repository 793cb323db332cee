# SPDX-License-Identifier: Apache-2.0
# Programs that store settings, records, keys and databases. See registry.sh.

idiom crudini crudini 'crudini --set' document=document.ini
make_crudini() { printf '[section]\nname = word0\n' >"$document"; }
save_crudini() { crudini --set "$document" section name "$new"; }

idiom crudini-inplace crudini 'crudini --inplace' document=document.ini
make_crudini-inplace() { printf '[section]\nname = word0\n' >"$document"; }
save_crudini-inplace() { crudini --inplace --set "$document" section name "$new"; }

# augtool_saves OPTION... saves with augtool and these options.
augtool_saves() {
    printf '%s\n' "set /files$PWD/$document/section/name $new" save |
        augtool --noautoload --transform "Puppet.lns incl $PWD/$document" --load-file "$PWD/$document" "$@"
}

idiom augtool augtool 'augtool' document=document.ini
make_augtool() { printf '[section]\nname = word0\n' >"$document"; }
save_augtool() { augtool_saves; }

idiom augtool-backup augtool 'augtool --backup' document=document.ini
make_augtool-backup() { printf '[section]\nname = word0\n' >"$document"; }
save_augtool-backup() { augtool_saves --backup; }

idiom recset recset 'recset' document=document.rec
make_recset() { printf 'Name: word0\n' >"$document"; }
save_recset() { recset -f Name -s "$new" "$document"; }

idiom recins recins 'recins' document=document.rec
make_recins() { printf 'Name: word0\n' >"$document"; }
save_recins() { recins -f Name -v "$new" "$document"; }

idiom htpasswd htpasswd 'htpasswd' document=document.htpasswd contents=any \
    known='*was asked 2 times to relinquish to a writer' \
    reason='opens the document to write, closes it and reads it, before it saves: two access sessions'
make_htpasswd() { htpasswd -b -c "$document" user word0; }
save_htpasswd() { htpasswd -b "$document" user "$new"; }

idiom gpg gpg 'gpg --output' contents=any
save_gpg() {
    write_new >../new
    gpg --homedir "$HOME" --batch --yes --quiet --passphrase word --symmetric --output "$document" ../new
}

idiom openssl openssl 'openssl enc -out' contents=any
save_openssl() {
    write_new >../new
    openssl enc -aes-256-cbc -pbkdf2 -pass pass:word -in ../new -out "$document"
}

idiom openssl-key openssl 'openssl genpkey -out' contents=any document=document.pem
save_openssl-key() { openssl genpkey -algorithm ed25519 -out "$document"; }

idiom ssh-keygen-p ssh-keygen 'ssh-keygen -p' document=document.key contents=any
make_ssh-keygen-p() {
    ssh-keygen -q -t ed25519 -N word0 -C comment -f "$document"
    chmod 600 "$document"
}
before_ssh-keygen-p() { chmod 600 "$document"; }
save_ssh-keygen-p() { ssh-keygen -q -p -P "$old" -N "$new" -f "$document"; }

idiom ssh-keygen-R ssh-keygen 'ssh-keygen -R' document=document.hosts
make_ssh-keygen-R() {
    local host key='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBZDmx2sb8MRne7IwYgx3nDNBK4Yp1uuosbXsRYgwV2U'
    for host in word0 word1 word2; do say "$host $key"; done >"$document"
}
save_ssh-keygen-R() { ssh-keygen -R "$new" -f "$document"; }

idiom sqlite sqlite3 'sqlite3: the document is a database' document=document.db contents=any asks=0 \
    reason='a database: its programs take turns by its own locks'
make_sqlite() { sqlite3 "$document" 'CREATE TABLE words (word TEXT)'; }
save_sqlite() { sqlite3 "$document" "INSERT INTO words VALUES ('$new')"; }

idiom sqlite-truncate sqlite3 'sqlite3, journal_mode=TRUNCATE' document=document.db contents=any asks=0 \
    reason='a database: its programs take turns by its own locks'
make_sqlite-truncate() { sqlite3 "$document" 'CREATE TABLE words (word TEXT)'; }
save_sqlite-truncate() { sqlite3 "$document" 'PRAGMA journal_mode=TRUNCATE' "INSERT INTO words VALUES ('$new')"; }

idiom sqlite-wal sqlite3 'sqlite3, journal_mode=WAL' document=document.db contents=any asks=0 \
    reason='a database: its programs take turns by its own locks'
make_sqlite-wal() { sqlite3 "$document" 'PRAGMA journal_mode=WAL' 'CREATE TABLE words (word TEXT)'; }
save_sqlite-wal() { sqlite3 "$document" "INSERT INTO words VALUES ('$new')"; }

idiom sqlite-vacuum sqlite3 'sqlite3: VACUUM' document=document.db contents=any asks=0 \
    reason='a database: its programs take turns by its own locks'
make_sqlite-vacuum() { sqlite3 "$document" 'CREATE TABLE words (word TEXT)'; }
before_sqlite-vacuum() { sqlite3 "$document" "INSERT INTO words VALUES (randomblob(20000)); DELETE FROM words"; }
save_sqlite-vacuum() { sqlite3 "$document" VACUUM; }

idiom gdbm gdbmtool 'gdbmtool: the document is a database' document=document.gdbm contents=any
make_gdbm() { gdbmtool --norc --newdb "$document" store word0 1; }
save_gdbm() { gdbmtool --norc "$document" store "$new" 1; }

idiom tokyocabinet tchmgr 'tchmgr: the document is a database' document=document.tch contents=any
make_tokyocabinet() { tchmgr create "$document"; }
save_tokyocabinet() { tchmgr put "$document" "$new" 1; }
