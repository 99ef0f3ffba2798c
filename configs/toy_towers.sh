#!/bin/sh
# configs/toy_towers.sh
# Retrains the towers inside `conifer quickstart` and writes them to the folder that the next build includes. Takes
# about 15 minutes on two idle cores. The runs are runs/toy_towers and runs/toy_towers_names.
set -eu
cd "$(dirname "$0")/.."
run=runs/toy_towers_names
towers=crates/cli/assets/toy_towers
conifer=${CONIFER:-target/release/conifer}

"$conifer" train configs/toy_towers.toml
"$conifer" train configs/toy_towers_names.toml
rm -rf "$towers"
"$conifer" convert "$run" "$towers" --dtype bf16
# Records the fingerprint of the training world; a test compares it with the world of the program.
state="$run/checkpoints/$(cat "$run/checkpoints/latest")/state.json"
sed -n 's/.*"fingerprint": *"\([0-9a-f]*\)".*/\1/p' "$state" > "$towers/world.txt"
test -s "$towers/world.txt"
chmod 644 "$towers"/*
ls -l "$towers"
