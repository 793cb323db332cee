# SPDX-License-Identifier: Apache-2.0
# Scripts in many programming languages, each of which writes the document. See registry.sh.

idiom python-write python3 'Python: Path.write_text'
save_python-write() {
    python3 -c 'import pathlib, sys
path = pathlib.Path(sys.argv[1])
path.write_text(path.read_text().replace(sys.argv[2], sys.argv[3]))' "$document" "$old" "$new"
}

idiom python-replace python3 'Python: tempfile and os.replace'
save_python-replace() {
    python3 -c 'import os, sys, tempfile
with open(sys.argv[1]) as file:
    text = file.read().replace(sys.argv[2], sys.argv[3])
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
os.replace(file.name, sys.argv[1])' "$document" "$old" "$new"
}

idiom python-fileinput python3 'Python: fileinput, in place'
save_python-fileinput() {
    python3 -c 'import fileinput, sys
for line in fileinput.input(sys.argv[1], inplace=True):
    print(line.replace(sys.argv[2], sys.argv[3]), end="")' "$document" "$old" "$new"
}

idiom python-update python3 'Python: open for reading and writing'
save_python-update() {
    python3 -c 'import sys
with open(sys.argv[1], "r+") as file:
    text = file.read().replace(sys.argv[2], sys.argv[3])
    file.seek(0)
    file.write(text)
    file.truncate()' "$document" "$old" "$new"
}

idiom python-mmap python3 'Python: mmap'
save_python-mmap() {
    python3 -c 'import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    place = memory.find(sys.argv[2].encode())
    memory[place:place + len(sys.argv[3])] = sys.argv[3].encode()' "$document" "$old" "$new"
}

idiom python-json python3 'Python: json' document=document.json
make_python-json() { printf '{"name": "word0"}\n' >"$document"; }
save_python-json() {
    python3 -c 'import json, sys
with open(sys.argv[1]) as file:
    value = json.load(file)
value["name"] = sys.argv[2]
with open(sys.argv[1], "w") as file:
    json.dump(value, file)' "$document" "$new"
}

idiom python-zipfile python3 'Python: zipfile, to append' document=document.zip contents=any
make_python-zipfile() { python3 -c 'import sys, zipfile
zipfile.ZipFile(sys.argv[1], "w").writestr("first", "1")' "$document"; }
save_python-zipfile() {
    python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "a") as file:
    file.writestr(sys.argv[2], "2")' "$document" "$new"
}

idiom python-shelve python3 'Python: shelve' document=document.dumb.dat
make_python-shelve() { save_python-shelve; }
save_python-shelve() {
    python3 -c 'import dbm.dumb, shelve, sys
with shelve.Shelf(dbm.dumb.open("document.dumb")) as shelf:
    shelf[sys.argv[1]] = "value"' "$new"
}

idiom perl-write perl 'Perl: open'
save_perl-write() { perl -e 'open(F, ">", shift) or die; print F shift; close(F) or die' "$document" "$new"; }

idiom perl-tie perl 'Perl: Tie::File'
save_perl-tie() {
    perl -MTie::File -e 'tie(my @lines, "Tie::File", shift) or die; $lines[1] = shift; untie @lines' "$document" "$new"
}

idiom ruby-write ruby 'Ruby: File.write'
save_ruby-write() { ruby -e 'File.write(ARGV[0], File.read(ARGV[0]).sub(ARGV[1], ARGV[2]))' "$document" "$old" "$new"; }

idiom ruby-pstore ruby 'Ruby: PStore' document=document.pstore
make_ruby-pstore() { save_ruby-pstore; }
save_ruby-pstore() {
    ruby -rpstore -e 'PStore.new(ARGV[0]).transaction { |store| store[:name] = ARGV[1] }' "$document" "$new"
}

idiom node-write node 'Node.js: fs.writeFileSync'
save_node-write() { node -e 'require("fs").writeFileSync(process.argv[1], process.argv[2])' "$document" "$new"; }

idiom node-stream node 'Node.js: fs.createWriteStream'
save_node-stream() {
    node -e 'require("fs").createWriteStream(process.argv[1]).end(process.argv[2])' "$document" "$new"
}

idiom php-write php 'PHP: file_put_contents'
save_php-write() { php -r 'file_put_contents($argv[1], $argv[2], LOCK_EX);' "$document" "$new"; }

idiom lua-write lua 'Lua: io.open'
save_lua-write() {
    lua -e "local file = io.open('$document', 'w'); file:write('$new'); file:close()"
}

idiom tcl-write tclsh 'Tcl: open'
save_tcl-write() { say "set file [open $document w]; puts \$file $new; close \$file" | tclsh; }

idiom gawk-print gawk 'gawk: print > file'
save_gawk-print() { gawk -v document="$document" -v new="$new" 'BEGIN { print new > document }'; }
