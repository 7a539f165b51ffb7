#!/bin/sh
# The tests of the workspace, all built before, in two lanes side by side: `tests.sh CARGO LOGS`.
#
# The lane `live` prints as it goes, and the lane `pure` runs with what CPU the other leaves, lints when its tests have
# ended, and prints at the end. The times of the slowest binaries come last.
cargo=$1
logs=$2
itself=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

lane() {
    runner="target.'cfg(all())'.runner=['sh', '$itself/lane.sh', '$1']"
    "$cargo" test --locked --workspace --no-fail-fast --config "$runner" --lib --bins --tests
}

pure() {
    failed=0
    lane pure || failed=1
    "$cargo" test --locked --workspace --no-fail-fast --doc || failed=1
    sh "$itself/lints.sh" "$cargo" || failed=1
    return "$failed"
}

mkdir -p "$logs"
rm -f "$logs"/tests.*
{ pure; echo $? >"$logs/tests.pure.status"; } >"$logs/tests.pure.log" 2>&1 &
renice -n 19 $! >/dev/null
{ lane live; echo $? >"$logs/tests.live.status"; } 2>&1 | tee "$logs/tests.live.log"
wait
echo '== tests: the lane that ran beside'
cat "$logs/tests.pure.log"
for each in live pure; do
    echo "== the time of the tests: $each"
    "$cargo" run --locked -q -p xtask -- times "$logs/tests.$each.log"
done
test "$(cat "$logs/tests.live.status")" = 0 && test "$(cat "$logs/tests.pure.status")" = 0
