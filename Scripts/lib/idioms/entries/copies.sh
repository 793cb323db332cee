# SPDX-License-Identifier: Apache-2.0
# Programs that copy a file to the document from another place. See registry.sh.

# new_file makes the file that a program copies, beside the folder.
new_file() {
    write_new >../new
    chmod 640 ../new
}

idiom cp cp 'cp'
save_cp() { new_file && cp ../new "$document"; }

idiom cp-p cp 'cp -p'
save_cp-p() { new_file && cp --preserve ../new "$document"; }

idiom cp-b cp 'cp -b'
save_cp-b() { new_file && cp --backup=simple ../new "$document"; }

idiom cp-numbered cp 'cp --backup=numbered'
save_cp-numbered() { new_file && cp --backup=numbered ../new "$document"; }

idiom cp-remove cp 'cp --remove-destination'
save_cp-remove() { new_file && cp --remove-destination ../new "$document"; }

idiom install install 'install'
save_install() { new_file && install --mode=640 ../new "$document"; }

idiom install-b install 'install -b'
save_install-b() { new_file && install --backup=simple --mode=640 ../new "$document"; }

idiom install-compare install 'install -C'
save_install-compare() { new_file && install --compare --mode=640 ../new "$document"; }

idiom mv mv 'mv of a file beside it over it'
before_mv() { write_new >document.new; }
save_mv() { mv document.new "$document"; }

idiom mv-elsewhere mv 'mv of a file in another folder over it'
before_mv-elsewhere() { new_file; }
save_mv-elsewhere() { mv ../new "$document"; }

idiom mv-b mv 'mv -b'
before_mv-b() { new_file; }
save_mv-b() { mv --backup=simple ../new "$document"; }

idiom ln-f ln 'ln -f'
before_ln-f() { rm -f ../new && new_file; }
save_ln-f() { ln --force ../new "$document"; }

idiom rsync rsync 'rsync'
save_rsync() { new_file && rsync --ignore-times ../new "$document"; }

idiom rsync-inplace rsync 'rsync --inplace'
save_rsync-inplace() { new_file && rsync --ignore-times --inplace ../new "$document"; }

idiom rsync-b rsync 'rsync -b'
save_rsync-b() { new_file && rsync --ignore-times --backup ../new "$document"; }

idiom rsync-delay rsync 'rsync --delay-updates'
save_rsync-delay() { new_file && rsync --ignore-times --delay-updates ../new "$document"; }

idiom unison unison 'unison'
make_unison() {
    make_text
    printf 'other\n' >other.txt
    mkdir ../replica
    cp --preserve "$document" ../replica/
}
save_unison() {
    write_new >"../replica/$document"
    UNISON=$PWD/../unison unison "$PWD/../replica" "$PWD" -path "$document" -batch -auto -prefer "$PWD/../replica" \
        -perms 0 -ui text -terse -log=false
}

idiom curl-o curl 'curl -o'
save_curl-o() { new_file && curl --silent --show-error --output "$document" "file://$(realpath ../new)"; }

idiom wget-O wget,python3 'wget -O'
save_wget-O() {
    new_file
    fetch wget --quiet --output-document="$document"
}

idiom aria2 aria2c,python3 'aria2c --allow-overwrite'
save_aria2() {
    new_file
    fetch aria2c --quiet --allow-overwrite=true --auto-file-renaming=false --out="$document"
}

# fetch COMMAND... runs a command with the address of ../new, which is served only on this machine.
fetch() {
    local server port status=0
    mkfifo ../port
    python3 "$idioms/serve" ../new >../port &
    server=$!
    read -r port <../port
    "$@" "http://127.0.0.1:$port/new" || status=$?
    kill "$server"
    wait "$server" || true
    rm ../port
    return "$status"
}

idiom ucf ucf 'ucf --force-new'
save_ucf() {
    new_file
    mkdir -p ../ucf/cache
    UCF_FORCE_CONFFNEW=yes ucf --state-dir "$PWD/../ucf" ../new "$PWD/$document"
}
