#!/bin/sh
# configs/toy_towers.sh
# Retrains the towers inside `conifer quickstart` and puts them where the next build finds them; about a quarter of an hour on two free
# cores. The runs are runs/toy_towers and runs/toy_towers_names.
set -eu
cd "$(dirname "$0")/.."
run=runs/toy_towers_names
towers=crates/app/assets/toy_towers
conifer=${CONIFER:-target/release/conifer}

"$conifer" train configs/toy_towers.toml
"$conifer" train configs/toy_towers_names.toml
rm -rf "$towers"
"$conifer" convert "$run" "$towers" --dtype bf16
# Which world they have seen: a test compares it with the world of the program.
state="$run/checkpoints/$(cat "$run/checkpoints/latest")/state.json"
sed -n 's/.*"fingerprint": *"\([0-9a-f]*\)".*/\1/p' "$state" > "$towers/world.txt"
test -s "$towers/world.txt"
chmod 644 "$towers"/*
ls -l "$towers"
