# SPDX-License-Identifier: Apache-2.0
# Programs that change a text as their command line says. See registry.sh.

idiom sed-i sed 'sed -i'
save_sed-i() { sed -i "s/$old/$new/" "$document"; }

idiom sed-i.bak sed 'sed -i.bak'
save_sed-i.bak() { sed -i.bak "s/$old/$new/" "$document"; }

idiom perl-i perl 'perl -i'
save_perl-i() { perl -i -pe "s/$old/$new/" "$document"; }

idiom perl-i.orig perl 'perl -i.orig'
save_perl-i.orig() { perl -i.orig -pe "s/$old/$new/" "$document"; }

idiom gawk-inplace gawk 'gawk -i inplace'
save_gawk-inplace() { gawk -i inplace "{ sub(/$old/, \"$new\"); print }" "$document"; }

idiom gawk-suffix gawk 'gawk -i inplace, with a suffix'
save_gawk-suffix() { gawk -i inplace -v inplace::suffix=.bak "{ sub(/$old/, \"$new\"); print }" "$document"; }

idiom ruby-i ruby 'ruby -i'
save_ruby-i() { ruby -i -pe "sub('$old', '$new')" "$document"; }

idiom ruby-i.bak ruby 'ruby -i.bak'
save_ruby-i.bak() { ruby -i.bak -pe "sub('$old', '$new')" "$document"; }

idiom busybox-sed busybox 'busybox sed -i'
save_busybox-sed() { busybox sed -i "s/$old/$new/" "$document"; }

# The second save reverses the change of the first save.
idiom dos2unix dos2unix,unix2dos 'unix2dos and dos2unix'
save_dos2unix() { if ((round == 1)); then unix2dos --quiet "$document"; else dos2unix --quiet "$document"; fi; }

idiom dos2unix-newfile dos2unix 'dos2unix -n'
save_dos2unix-newfile() {
    write_new >../new
    dos2unix --quiet --newfile ../new "$document"
}

idiom fromdos fromdos,todos 'todos and fromdos'
save_fromdos() { if ((round == 1)); then todos "$document"; else fromdos "$document"; fi; }

idiom flip flip 'flip -m and flip -u' \
    known='*was asked 2 times to relinquish to a writer' \
    reason='opens the document to write, closes it and reads it, before it saves: two access sessions'
save_flip() { if ((round == 1)); then flip -m "$document"; else flip -u "$document"; fi; }

idiom recode recode 'recode' \
    known='*was asked 2 times to relinquish to a writer' \
    reason='opens the document to write, closes it and reads it, before it saves: two access sessions'
save_recode() { if ((round == 1)); then recode utf8..utf16 "$document"; else recode utf16..utf8 "$document"; fi; }

idiom iconv-o iconv 'iconv -o'
save_iconv-o() {
    write_new >../new
    iconv --from-code=utf-8 --to-code=utf-16 --output="$document" ../new
}

# sponge copies its temporary file if the file is on another file system. Otherwise it renames the file.
idiom sponge sponge 'sed | sponge, which copies'
save_sponge() { sed "s/$old/$new/" "$document" | TMPDIR=/dev/shm sponge "$document"; }

idiom sponge-renames sponge 'sed | sponge, which renames' \
    known='*told 2 times*' reason='keeps the new file open until it ends, which is told as another change'
save_sponge-renames() { sed "s/$old/$new/" "$document" | TMPDIR=.. sponge "$document"; }

idiom rpl rpl 'rpl, which copies'
save_rpl() { TMPDIR=/dev/shm rpl --quiet "$old" "$new" "$document"; }

idiom rpl-renames rpl 'rpl, which renames'
save_rpl-renames() { TMPDIR=$PWD/.. rpl --quiet "$old" "$new" "$document"; }

idiom tee tee 'tee'
save_tee() { write_new | tee "$document" >/dev/null; }

idiom shell-write bash 'the shell: >'
save_shell-write() { write_new >"$document"; }

idiom shell-append bash 'the shell: >>'
save_shell-append() { write_new >>"$document"; }

idiom sed-mv sed,mv 'sed to a new file, then mv' \
    known='save * the folder*was @(told subitemDidAppear|asked accommodateSubitemDeletion|told subitemDidChange) *' \
    reason='one program makes the new file, another renames it: until then it is a file of its own'
save_sed-mv() { sed "s/$old/$new/" "$document" >document.new && mv document.new "$document"; }

idiom sort-o sort 'sort -o'
before_sort-o() { printf 'line %d\nanother\n' "$round" >>"$document"; }
save_sort-o() { sort --output="$document" "$document"; }

idiom shuf-o shuf 'shuf -o'
save_shuf-o() {
    write_new >../new
    shuf --random-source=/dev/zero --output="$document" ../new
}

idiom dd dd 'dd conv=notrunc'
save_dd() { printf 'line %d' "$round" | dd of="$document" conv=notrunc status=none; }

idiom truncate truncate 'truncate'
save_truncate() { truncate --size=$((round * 5)) "$document"; }

idiom split-csplit csplit 'csplit: its first piece is the document' document=piece00
save_split-csplit() {
    write_new >../new
    csplit --quiet --prefix=piece ../new 2
}

idiom codespell codespell 'codespell -w'
make_codespell() { printf 'the first line\n' >"$document"; }
before_codespell() { printf 'line %d, recieved\n' "$round" >>"$document"; }
save_codespell() { codespell --write-changes --quiet-level=3 "$document"; }

idiom miller mlr 'mlr -I' document=document.csv
make_miller() { printf 'a,b\nword0,2\n' >"$document"; }
save_miller() { mlr -I --csv put "\$a = \"$new\"" "$document"; }

idiom xxd xxd 'xxd -r'
save_xxd() { write_new | xxd | xxd -r - "$document"; }
