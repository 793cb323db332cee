# SPDX-License-Identifier: Apache-2.0
# Programs for archives and compressed files. The document is a member of the archive, or the archive itself. See registry.sh.

# Makes an archive beside the folder. Its only member is the document's new text.
new_member() {
    rm -rf ../packed
    mkdir ../packed
    write_new >"../packed/$document"
    chmod 640 "../packed/$document"
}

idiom tar-x tar 'tar --extract'
save_tar-x() {
    new_member
    tar --create --file=../new.tar --directory=../packed "$document"
    tar --extract --file=../new.tar
}

idiom tar-overwrite tar 'tar --extract --overwrite'
save_tar-overwrite() {
    new_member
    tar --create --file=../new.tar --directory=../packed "$document"
    tar --extract --overwrite --file=../new.tar
}

idiom tar-backup tar 'tar --extract --backup'
save_tar-backup() {
    new_member
    tar --create --file=../new.tar --directory=../packed "$document"
    tar --extract --backup=simple --file=../new.tar
}

idiom bsdtar-x bsdtar 'bsdtar -x'
save_bsdtar-x() {
    new_member
    bsdtar -cf ../new.tar -C ../packed "$document"
    bsdtar -xf ../new.tar
}

idiom bsdtar-safe bsdtar 'bsdtar -x --safe-writes'
save_bsdtar-safe() {
    new_member
    bsdtar -cf ../new.tar -C ../packed "$document"
    bsdtar -xf ../new.tar --safe-writes
}

idiom cpio cpio 'cpio --extract'
save_cpio() {
    new_member
    (cd ../packed && say "$document" | cpio --quiet --create --format=newc) >../new.cpio
    cpio --quiet --extract --unconditional <../new.cpio
}

idiom pax pax 'pax -r'
save_pax() {
    new_member
    (cd ../packed && pax -w "$document") >../new.pax
    pax -r <../new.pax
}

idiom unzip zip,unzip 'unzip -o'
save_unzip() {
    new_member
    rm -f ../new.zip
    (cd ../packed && zip --quiet ../new.zip "$document")
    unzip -q -o ../new.zip
}

idiom 7z-x 7zz '7zz x'
save_7z-x() {
    new_member
    rm -f ../new.7z
    (cd ../packed && 7zz a ../new.7z "$document")
    7zz x -y ../new.7z
}

idiom tar-append tar 'tar --append: the document is an archive' document=document.tar contents=any
make_tar-append() {
    say first >../member
    tar --create --file="$document" --directory=.. member
}
save_tar-append() {
    write_new >../member
    tar --append --file="$document" --directory=.. member
}

idiom zip zip 'zip: the document is an archive' document=document.zip contents=any
make_zip() {
    say first >../member
    (cd .. && zip --quiet "folder/$document" member)
}
save_zip() {
    write_new >../member
    (cd .. && zip --quiet "folder/$document" member)
}

idiom 7z-update 7zz '7zz u: the document is an archive' document=document.7z contents=any
make_7z-update() {
    say first >../member
    7zz a "$document" ../member
}
save_7z-update() {
    write_new >../member
    7zz u "$document" ../member
}

idiom ar ar 'ar: the document is an archive' document=document.a
make_ar() {
    say first >../member
    ar rcD "$document" ../member
}
save_ar() {
    write_new >../member
    ar rcD "$document" ../member
}

idiom gzip gzip 'gzip -f' document=document.gz
make_gzip() { say first | gzip --no-name >"$document"; }
before_gzip() { write_new >document; }
save_gzip() { gzip --force --no-name document; }

idiom gunzip gzip 'gunzip -f'
before_gunzip() { write_new | gzip --no-name >"$document.gz"; }
save_gunzip() { gunzip --force "$document.gz"; }

idiom xz xz 'xz -f' document=document.xz
make_xz() { say first | xz >"$document"; }
before_xz() { write_new >document; }
save_xz() { xz --force document; }

idiom zstd zstd 'zstd -f' document=document.zst
make_zstd() { say first | zstd --quiet >"$document"; }
before_zstd() { write_new >document; }
save_zstd() { zstd --quiet --force --rm document; }

idiom bzip2 bzip2 'bzip2 -f' document=document.bz2
make_bzip2() { say first | bzip2 >"$document"; }
before_bzip2() { write_new >document; }
save_bzip2() { bzip2 --force document; }

idiom lzip lzip 'lzip -f' document=document.lz
make_lzip() { say first | lzip >"$document"; }
before_lzip() { write_new >document; }
save_lzip() { lzip --force document; }

idiom pigz pigz 'pigz -f' document=document.gz
make_pigz() { say first | pigz --no-name >"$document"; }
before_pigz() { write_new >document; }
save_pigz() { pigz --force --no-name document; }
