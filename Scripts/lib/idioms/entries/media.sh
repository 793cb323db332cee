# SPDX-License-Identifier: Apache-2.0
# Programs that change pictures, sounds and pages. See registry.sh. The script `samples` makes their first documents.

make_png() { python3 "$idioms/samples" png >"$document"; }
make_jpeg() { python3 "$idioms/samples" png >../sample.png && convert ../sample.png "jpeg:$document"; }

idiom optipng optipng,python3 'optipng' document=document.png
make_optipng() { make_png; }
before_optipng() { python3 "$idioms/samples" png "$round" >"$document"; }
save_optipng() { optipng -quiet "$document"; }

idiom optipng-keep optipng,python3 'optipng -keep' document=document.png
make_optipng-keep() { make_png; }
before_optipng-keep() { rm -f "$document.bak" && python3 "$idioms/samples" png "$round" >"$document"; }
save_optipng-keep() { optipng -quiet -keep "$document"; }

idiom pngquant pngquant,python3 'pngquant --ext .png --force' document=document.png
make_pngquant() { make_png; }
before_pngquant() { python3 "$idioms/samples" png "$round" >"$document"; }
save_pngquant() { pngquant --force --ext .png 16 "$document"; }

idiom advpng advpng,python3 'advpng -z' document=document.png
make_advpng() { make_png; }
before_advpng() { python3 "$idioms/samples" png "$round" >"$document"; }
save_advpng() { advpng --recompress --quiet "$document"; }

idiom jpegoptim jpegoptim,convert,python3 'jpegoptim' document=document.jpg
make_jpegoptim() { make_jpeg; }
save_jpegoptim() { jpegoptim --quiet --force --max=$((90 - 20 * round)) "$document"; }

idiom jhead jhead,convert,python3 'jhead -cl' document=document.jpg
make_jhead() { make_jpeg; }
save_jhead() { jhead -q -cl "$new" "$document"; }

idiom exiv2 exiv2,convert,python3 'exiv2' document=document.jpg
make_exiv2() { make_jpeg; }
save_exiv2() { exiv2 -M "set Exif.Photo.UserComment $new" "$document"; }

idiom exiftool exiftool,convert,python3 'exiftool' document=document.jpg
make_exiftool() { make_jpeg; }
save_exiftool() { exiftool -quiet "-Comment=$new" "$document"; }

idiom exiftool-original exiftool,convert,python3 'exiftool -overwrite_original' document=document.jpg
make_exiftool-original() { make_jpeg; }
save_exiftool-original() { exiftool -quiet -overwrite_original "-Comment=$new" "$document"; }

idiom exiftool-inplace exiftool,convert,python3 'exiftool -overwrite_original_in_place' document=document.jpg
make_exiftool-inplace() { make_jpeg; }
save_exiftool-inplace() { exiftool -quiet -overwrite_original_in_place "-Comment=$new" "$document"; }

idiom mogrify mogrify,python3 'mogrify' document=document.png contents=any
make_mogrify() { make_png; }
save_mogrify() { mogrify -rotate 90 "$document"; }

idiom convert convert,python3 'convert' document=document.png contents=any
make_convert() { make_png; }
save_convert() { convert "$document" -rotate 90 "$document"; }

idiom gm-mogrify gm,python3 'gm mogrify' document=document.png contents=any
make_gm-mogrify() { make_png; }
save_gm-mogrify() { gm mogrify -rotate 90 "$document"; }

idiom gifsicle gifsicle,convert,python3 'gifsicle -b' document=document.gif
make_gifsicle() { python3 "$idioms/samples" png >../sample.png && convert ../sample.png "gif:$document"; }
save_gifsicle() { gifsicle --batch --comment "$new" "$document"; }

idiom id3v2 id3v2,python3 'id3v2' document=document.mp3 \
    known='*was asked 2 times to relinquish to a writer' \
    reason='opens the document to write, closes it and reads it, before it saves: two access sessions'
make_id3v2() { python3 "$idioms/samples" mp3 >"$document"; }
save_id3v2() { id3v2 --artist "$new" "$document"; }

idiom eyeD3 eyeD3,python3 'eyeD3' document=document.mp3
make_eyeD3() { python3 "$idioms/samples" mp3 >"$document"; }
save_eyeD3() { eyeD3 --quiet --artist "$new" "$document"; }

idiom metaflac flac,metaflac 'metaflac' document=document.flac
make_metaflac() {
    head --bytes=40000 /dev/zero | flac --silent --force-raw-format --endian=little --sign=signed --channels=1 \
        --bps=16 --sample-rate=8000 --stdout - >"$document"
}
save_metaflac() { metaflac --set-tag="NAME=$new" "$document"; }

idiom metaflac-file flac,metaflac 'metaflac, without padding' document=document.flac
make_metaflac-file() { make_metaflac; }
save_metaflac-file() { metaflac --dont-use-padding --set-tag="NAME=$new" "$document"; }

idiom vorbiscomment oggenc,vorbiscomment 'vorbiscomment -w' document=document.ogg
make_vorbiscomment() {
    head --bytes=40000 /dev/zero | oggenc --quiet --raw --raw-chan=1 --raw-rate=8000 --serial=1 --output="$document" -
}
save_vorbiscomment() { vorbiscomment --write --tag "NAME=$new" "$document"; }

idiom qpdf qpdf,python3 'qpdf --replace-input' document=document.pdf contents=any
make_qpdf() { python3 "$idioms/samples" pdf >"$document"; }
save_qpdf() { qpdf --replace-input "--rotate=+90" "$document"; }

idiom mat2 mat2,python3 'mat2 --inplace' document=document.png contents=any
make_mat2() { make_png; }
save_mat2() { mat2 --inplace "$document"; }

idiom objcopy objcopy,cp 'objcopy' document=document.bin
make_objcopy() { cp /bin/true "$document"; }
save_objcopy() {
    write_new >../new
    objcopy --add-section ".$new=../new" "$document"
}

idiom strip strip,cp 'strip' document=document.bin
make_strip() { cp /bin/true "$document"; }
before_strip() { cp /bin/true "$document"; }
save_strip() { strip --remove-section=.comment "$document"; }
