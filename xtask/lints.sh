#!/bin/sh
# Clippy and rustdoc over the workspace, warnings refused: `lints.sh CARGO`. Nobody needs what they build: beside tests
# they run with what CPU those leave.
set -e
"$1" clippy --locked --workspace --all-targets -- -D warnings
# With the targets named, dependencies have the features that tests ask for: nothing is built twice.
RUSTDOCFLAGS='-D warnings' "$1" doc --locked --workspace --lib --bins --examples --no-deps --document-private-items -q
