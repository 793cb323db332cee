# SPDX-License-Identifier: Apache-2.0
# Programs that format a source text. See registry.sh. Before each save, another program adds text that is badly formatted.

make_python() { printf 'import os\n' >"$document"; }
spoil_python() { printf 'import   abc%d\nx%d = {  "a":1 }\n' "$round" "$round" >>"$document"; }

make_c() { printf 'int first;\n' >"$document"; }
spoil_c() { printf 'int f%d( ) {return   1 ; }\n' "$round" >>"$document"; }

idiom black black 'black' document=document.py
make_black() { make_python; }
before_black() { spoil_python; }
save_black() { black --quiet "$document"; }

idiom isort isort 'isort' document=document.py
make_isort() { make_python; }
before_isort() { printf 'import abc%d\n' $((3 - round)) >>"$document"; }
save_isort() { isort --quiet "$document"; }

idiom autopep8 autopep8 'autopep8 -i' document=document.py
make_autopep8() { make_python; }
before_autopep8() { spoil_python; }
save_autopep8() { autopep8 --in-place "$document"; }

idiom yapf yapf3 'yapf3 -i' document=document.py
make_yapf() { make_python; }
before_yapf() { spoil_python; }
save_yapf() { yapf3 --in-place "$document"; }

idiom uncrustify uncrustify 'uncrustify --replace' document=document.c
make_uncrustify() { make_c; }
before_uncrustify() { spoil_c; }
save_uncrustify() {
    say 'indent_columns = 4' >../settings
    uncrustify -q -c ../settings --replace "$document"
}

idiom uncrustify-no-backup uncrustify 'uncrustify --no-backup' document=document.c
make_uncrustify-no-backup() { make_c; }
before_uncrustify-no-backup() { spoil_c; }
save_uncrustify-no-backup() {
    say 'indent_columns = 4' >../settings
    uncrustify -q -c ../settings --no-backup "$document"
}

idiom astyle astyle 'astyle' document=document.c
make_astyle() { make_c; }
before_astyle() { spoil_c; }
save_astyle() { astyle --quiet --pad-oper "$document"; }

idiom astyle-none astyle 'astyle --suffix=none' document=document.c
make_astyle-none() { make_c; }
before_astyle-none() { spoil_c; }
save_astyle-none() { astyle --quiet --pad-oper --suffix=none "$document"; }

idiom indent indent 'indent' document=document.c
make_indent() { make_c; }
before_indent() { spoil_c; }
save_indent() { indent "$document"; }

idiom rustfmt rustfmt 'rustfmt' document=document.rs
make_rustfmt() { printf 'fn first() {}\n' >"$document"; }
before_rustfmt() { printf 'fn f%d( ) {   }\n' "$round" >>"$document"; }
save_rustfmt() { rustfmt "$document"; }

idiom shfmt shfmt 'shfmt -w' document=document.sh
make_shfmt() { say 'true' >"$document"; }
before_shfmt() { printf 'if   true;then true;fi\n' >>"$document"; }
save_shfmt() { shfmt -w "$document"; }

idiom perltidy perltidy 'perltidy -b' document=document.pl
make_perltidy() { say 'my $first;' >"$document"; }
before_perltidy() { say 'if(1){print   2}' >>"$document"; }
save_perltidy() { perltidy -b "$document"; }

idiom tidy tidy 'tidy -m' document=document.html \
    known='*was asked 2 times to relinquish to a writer' \
    reason='opens the document to write, closes it and reads it, before it saves: two access sessions'
make_tidy() { say '<!DOCTYPE html><html><head><title>t</title></head><body></body></html>' >"$document"; }
before_tidy() { say "<p>line $round" >>"$document"; }
save_tidy() { tidy -quiet -modify --show-warnings no "$document" || (($? == 1)); }

idiom xmlstarlet xmlstarlet 'xmlstarlet ed -L' document=document.xml
make_xmlstarlet() { say '<a><b>word0</b></a>' >"$document"; }
save_xmlstarlet() { xmlstarlet ed --inplace --update /a/b --value "$new" "$document"; }

idiom xmllint xmllint 'xmllint --output' document=document.xml
make_xmllint() { say '<a><b>word0</b></a>' >"$document"; }
before_xmllint() { say "<a><b>$new</b><c/></a>" >"$document"; }
save_xmllint() { xmllint --format --output "$document" "$document"; }

idiom jq-mv jq,mv 'jq to a new file, then mv' document=document.json \
    known='save * the folder*was @(told subitemDidAppear|asked accommodateSubitemDeletion|told subitemDidChange) *' \
    reason='one program makes the new file, another renames it: until then it is a file of its own'
make_jq-mv() { say '{"name": "word0"}' >"$document"; }
save_jq-mv() { jq ".name = \"$new\"" "$document" >document.new && mv document.new "$document"; }

idiom yq yq 'yq -i' document=document.yaml
make_yq() { say 'name: word0' >"$document"; }
save_yq() { yq --in-place --yaml-output ".name = \"$new\"" "$document"; }

idiom msgmerge msgmerge,msgcat 'msgmerge --update' document=document.po
make_msgmerge() { printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n' >"$document"; }
save_msgmerge() {
    printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "%s"\nmsgstr ""\n' "$new" >../new.pot
    msgmerge --quiet --update "$document" ../new.pot
}
