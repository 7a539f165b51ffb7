#!/bin/sh
# Records the file pages that 29 programs use, one launch each, as programs.csv.zst. Needs root, the programs below and
# freehold. The column `app` is the application of paper 003 that the program stands for.
#
#     sh record.sh /path/to/freehold programs.csv.zst
set -eu
freehold=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/hello.c" <<'C'
#include <stdio.h>
int main(void) { puts("hello"); return 0; }
C
cat > "$work/hello.cpp" <<'C'
#include <iostream>
#include <map>
int main() { std::map<int, int> m{{1, 2}}; std::cout << m[1] << '\n'; }
C
cat > "$work/Hello.java" <<'C'
public class Hello { public static void main(String[] a) { System.out.println("hello"); } }
C
cat > "$work/hello.go" <<'C'
package main
import "fmt"
func main() { fmt.Println("hello") }
C
echo 'fn main() { println!("hello"); }' > "$work/hello.rs"
echo '/// A number.
pub fn one() -> u32 { 1 }' > "$work/one.rs"
seq 1 200000 > "$work/numbers"
seq 1 2000 | sed 's/.*/{"n":&}/' > "$work/rows.json"
printf '.TH T 1\n.SH NAME\nt \\- text\n.SH TEXT\nSome text.\n' > "$work/t.1"
git init -q "$work/tree"
cp "$work"/hello.* "$work/tree"
git -C "$work/tree" add . && git -C "$work/tree" -c user.name=n -c user.email=e commit -qm one
javac -d "$work" "$work/Hello.java"
gcc -g -o "$work/hello" "$work/hello.c"
: > "$work/all.csv"
echo 't_us,app,kind,dev,ino,page,npages' > "$work/all.csv"

# app, then the command
launch() {
    app=$1
    shift
    (cd "$work" && "$freehold" cache record -o "$work/one.csv" -- "$@" > /dev/null 2> "$work/said" < /dev/null) ||
        { echo "$app: $*: $(cat "$work/said")" >&2; exit 1; }
    grep -q ' 0 samples lost' "$work/said" || { echo "$app: $(cat "$work/said")" >&2; exit 1; }
    # Uses only: what entered and left the recorded machine's page cache says nothing to a replay. Files in the
    # temporary folder keep their numbers.
    awk -F, -v OFS=, -v app="$app" '$3 ~ /^[FMR]$/ { $1 = 0; $2 = app; print }' "$work/one.csv" >> "$work/all.csv"
}

launch Alarm sh -c 'echo "2^1000" | bc -q'
launch Angrybird sh -c 'echo "puts [expr 6*7]" | tclsh'
launch Browser node -e 'console.log(require("crypto").createHash("sha256").update("a").digest("hex"))'
launch Calendar perl -MPOSIX -MData::Dumper -MTime::Local -e 'print Dumper(POSIX::strftime("%A", localtime))'
launch Call openssl speed -elapsed -seconds 1 sha256
launch Camera rustfmt one.rs
launch Maps java -cp . Hello
launch Picture python3 -c 'import json, decimal, email.message, http.client, xml.dom.minidom, sqlite3, asyncio'
launch Setting vim --version
launch SMS sqlite3 :memory: 'create table t(a, b); insert into t values(1, 2); select * from t;'
launch GooglePlay apt-cache policy bash
launch Weather curl -s file:///etc/hostname
launch Alchemy gdb -batch -ex 'info functions main' ./hello
launch Dragracing valgrind -q ./hello
launch Facebook npm --version
launch GMail git -C tree log --stat
launch Movies cmake --help-command-list
launch Twitter psql --version
launch Adobe groff -man -Tps t.1
launch AstridTask jq -s length rows.json
launch AvdTKiller gcc -O1 -o h hello.c
launch CNN wget --version
launch ESPN g++ -o h hello.cpp
launch GasBuddy go version
launch Skymap javac -d . Hello.java
launch HopStop cscope -b -R -s tree
launch iTriage rustdoc --out-dir doc one.rs
launch KakaoTalk gpg --homedir "$work" --print-md SHA256 numbers
launch YouTube rustc --out-dir . hello.rs

# Device and file numbers say nothing elsewhere: files are numbered as they first come.
awk -F, -v OFS=, 'NR == 1 { print; next } { key = $4 SUBSEP $5; if (!(key in n)) n[key] = ++count
    $4 = "0:0"; $5 = n[key]; print }' "$work/all.csv" | zstd -19 -q -f -o "$out"
