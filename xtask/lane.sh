#!/bin/sh
# The runner of `cargo test` in one of the two lanes of `make test`: runs the test binary that it is given if its crate
# belongs to the lane, and leaves it to the other lane if not. Cargo says in CARGO_PKG_NAME whose binary it is.
#
# `pure` has the crates that compute, and that no other process disturbs, and of the command what runs its simulator.
# `live` has those with real memory, processes and times, one binary after the other, as they may not meet each other.
lane=$1
shift
case $CARGO_PKG_NAME:${1##*/} in
freehold-core:* | freehold-picture:* | freehold-protocol:* | freehold-report:* | freehold-scenario:*) its=pure ;;
freehold-shm:* | freehold-sim:* | xtask:* | freehold:simulator-*) its=pure ;;
*) its=live ;;
esac
if [ "$its" = "$lane" ]; then exec "$@"; fi
