"""Recomputes the verdicts of `conifer reproduce` from its stored outcomes, without conifer's code.

    python3 bench/check_claims.py OUT [CLAIM...]      (OUT: the folder of `--out`; needs NumPy)

It draws its own resamples, so the ends of the intervals differ by the noise of the bootstrap. It prints a line for each
claim and ends with status 1 if a verdict differs. The rule is that of docs/claims.md. It leaves out numbers that are not
a mean of one value per query (tau_d, macro averages).
"""
import glob
import json
import pathlib
import shlex
import sys

import numpy as np

RESAMPLES = 10_000


def record(out, key, row, own_data):
    """The stored number of a run. The file of a data set has its name (`coco.jsonl`), as in docs/claims.md."""
    for path in glob.glob(f"{out}/results/{key}/{row['benchmark']}-*.jsonl"):
        for line in open(path):
            found = json.loads(line)
            made = found["produced_by"]
            same_data = pathlib.Path(made["data"]).stem == (row["data"] or own_data) and made["split"] == row["split"]
            protocol = found["protocol"].split(", partial: ")[0]
            if same_data and (found["split"], protocol, found["metric"]) == (row["part"], row["protocol"], row["metric"]):
                return found
    sys.exit(f"{out}: no record of {row} for the run {key}")


def own_data(claim):
    """Name of the data that the claimed run was trained on."""
    train = next(it["train"] for it in claim["runs"] if it["run"] == claim["compared"][0])
    paths = [word.removeprefix("data.path=") for word in shlex.split(train) if word.startswith("data.path=")]
    return pathlib.Path(paths[0]).stem if paths else "toy"


def interval(values, clusters, random):
    """95 % of the mean of `values` [seeds, queries], over seeds and whole clusters of queries."""
    names = np.unique(clusters)
    sizes = np.array([(clusters == name).sum() for name in names])
    sums = np.array([[row[clusters == name].sum() for name in names] for row in values])
    means = []
    for _ in range(RESAMPLES):
        seeds = random.integers(len(sums), size=len(sums))
        drawn = random.integers(len(names), size=len(names))
        means.append((sums[seeds][:, drawn].sum(1) / sizes[drawn].sum()).mean())
    return np.percentile(means, [2.5, 97.5])


def verdict(out, claim, seeds, random):
    keys = {(run["run"], run["seed"]): run["key"] for run in claim["runs"]}
    claimed, other = claim["compared"]
    ours = [record(out, keys[claimed, seed], claim["row"], own_data(claim)) for seed in seeds]
    theirs = None if other == "trivial" else [record(out, keys[other, seed], claim["row"], own_data(claim)) for seed in seeds]
    trivial = lambda records: np.array([[record["baseline"]["value"]] for record in records])
    values = lambda records: np.array([record["outcomes"]["values"] for record in records])
    a = values(ours)
    b = values(theirs) if theirs else np.repeat(trivial(ours), a.shape[1], 1)
    clusters = np.array(ours[0].get("clusters") or range(a.shape[1]))
    low, high = interval(a - b, clusters, random)
    found = "holds" if low > claim["margin"] else "does not hold" if high < claim["margin"] else "cannot be decided here"
    if theirs and found != "cannot be decided here" and not claim["ignore_trivial"]:
        better, records = (a, ours) if (a - b).mean() >= 0 else (b, theirs)
        if interval(better - trivial(records), clusters, random)[0] <= 0:
            found = "cannot be decided here"
    return found, low, high


def main():
    out, names = sys.argv[1], sys.argv[2:]
    report = json.load(open(f"{out}/claims.json"))
    random = np.random.default_rng(1)
    differ = 0
    for claim in report["claims"]:
        if names and claim["name"] not in names or not claim["comparison"]:
            continue
        first = record(out, claim["runs"][0]["key"], claim["row"], own_data(claim))
        if first["outcomes"]["statistic"] != "mean":
            print(f"{claim['name']}: not recomputed: the number is not a mean of one value per query")
            continue
        found, low, high = verdict(out, claim, report["seeds"], random)
        differ += found != claim["verdict"]
        stored = claim["comparison"]["interval"]
        print(f"{claim['name']}: {claim['verdict']} ({stored[0]:+.4f} .. {stored[1]:+.4f}); "
              f"recomputed: {found} ({low:+.4f} .. {high:+.4f})")
    sys.exit(f"{differ} verdicts differ" if differ else 0)


if __name__ == "__main__":
    main()
