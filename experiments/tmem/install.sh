#!/bin/sh
# What `freehold reproduce tmem-table3`, `tmem-table4` and `freehold bench cbuf-passing` are compared with. None of it is
# part of Freehold. $1: where the program for iceoryx2 is built. As root on Debian, wrk is installed.
set -e
command -v wrk >/dev/null 2>&1 || apt-get install -y --no-install-recommends wrk
cargo build --release --locked --manifest-path "$(dirname "$0")/iceoryx2/Cargo.toml" --target-dir "$1"
echo "== now: export FREEHOLD_ICEORYX2=$(realpath "$1")/release/freehold-iceoryx2"
