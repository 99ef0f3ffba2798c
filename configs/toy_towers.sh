#!/bin/sh
# configs/toy_towers.sh
# Retrains the towers inside `conifer quickstart` and installs them for the next build; about an hour and a quarter on two cores.
# The runs are runs/toy_towers and runs/toy_towers_names.
set -eu
cd "$(dirname "$0")/.."
run=runs/toy_towers_names
towers=crates/cli/assets/toy_towers
conifer=${CONIFER:-target/release/conifer}

"$conifer" train configs/toy_towers.toml
"$conifer" train configs/toy_towers_names.toml
rm -rf "$towers"
"$conifer" convert "$run" "$towers" --dtype bf16
# The fingerprints of the training data: a test compares them with the toy world of the program.
for folder in runs/toy_towers "$run"; do
    state="$folder/checkpoints/$(cat "$folder/checkpoints/latest")/state.json"
    sed -n 's/.*"fingerprint": *"\([0-9a-f]*\)".*/\1/p' "$state"
done > "$towers/world.txt"
test "$(wc -l < "$towers/world.txt")" -eq 2
chmod 644 "$towers"/*
ls -l "$towers"
