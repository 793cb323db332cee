# SPDX-License-Identifier: Apache-2.0
# Makes a folder with a few real documents, for users that try Truce.

# make_sample prints the new directory: ~/truce-sample, or the first such name that is free.
make_sample() {
    local directory=$HOME/truce-sample number=1
    until mkdir "$directory" 2>/dev/null; do
        [[ -e $directory ]] || refuse "start: cannot make $directory"
        number=$((number + 1))
        directory=$HOME/truce-sample-$number
    done
    write_letter >"$directory/letter.txt"
    write_tasks >"$directory/tasks.md"
    write_costs >"$directory/costs.csv"
    write_script >"$directory/total"
    chmod +x "$directory/total"
    printf '%s\n' "$directory"
}

write_letter() {
    cat <<'END'
Dear Grace,

thank you for the drawings of the compiler. We have put them up beside the
engine, where everybody can reach them, and that is the trouble: two of us
took the same sheet last week and each brought back half a correction.

Come and see it on Thursday, if you can.

Ada
END
}

write_tasks() {
    cat <<'END'
# Before Thursday

- [x] Order paper
- [ ] Copy table 4, twice
- [ ] Ask Charles for the key
- [ ] Add up costs.csv (`./total` does it)
END
}

write_costs() {
    cat <<'END'
item,pounds
paper,12
ink,7
brass wheels,140
tea,3
END
}

write_script() {
    cat <<'END'
#!/bin/sh
# Adds up the second column of costs.csv.
sum=0
while IFS=, read -r item pounds; do
    [ "$item" = item ] || sum=$((sum + pounds))
done <"$(dirname "$0")/costs.csv"
echo "$sum pounds"
END
}
