#!/usr/bin/env python3
"""Measure training on several ranks, fit a model of the time of a step, and predict larger jobs (docs/scale.md).

    python3 bench/scale.py run --program target/release/conifer --config c.toml --ranks 1,2 --batches 32,64 --out runs.jsonl
    python3 bench/scale.py fit runs.jsonl --held-out 2:64      coefficients, and predictions of runs that were left out
    python3 bench/scale.py plan --pair-ms 900 --head-ms 40     efficiency for 2 to 1,024 ranks

The time of a step with B samples on n ranks is

    pair * B / n  +  fixed  +  exchange * 2 (n - 1) / n

pair: reading, embedding and back-propagation of a sample. fixed: what every rank does for the whole batch (the loss) and the model (the
optimiser). exchange: the time to send the gradients once. The loss grows with B^2; `plan` takes it as a number for its batch.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median


def measured(program, config, ranks, threads, batch, steps, sets):
    """Median seconds of a step, without the first of several, and the peak memory of rank 0 in MiB, from the log of a run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        overrides = [f"train.steps={steps}", f"train.batch_size={batch}", "train.log_every=1", "train.checkpoint_every=0",
                     "optim.warmup_steps=1", *sets]
        command = [program, "train", config, "--out", str(out)] + [it for over in overrides for it in ("--set", over)]
        if ranks > 1:
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *command]
        subprocess.run(command, check=True, env=os.environ | {"RAYON_NUM_THREADS": str(threads)}, stdout=subprocess.DEVNULL)
        records = [json.loads(line) for line in open(out / "metrics.jsonl")]
    seconds = median(batch / record["samples_per_second"] for record in records[1:] or records)
    return seconds, records[-1].get("peak_rss_mb")


def run(arguments):
    """Measures every combination, one after the other."""
    if shutil.which("mpirun") is None and arguments.ranks != [1]:
        sys.exit("there is no mpirun; expected an MPI library, as docs/scale.md installs it, or --ranks 1")
    with open(arguments.out, "a") as out:
        for ranks in arguments.ranks:
            for batch in arguments.batches:
                it = arguments
                seconds, peak = measured(it.program, it.config, ranks, it.threads, batch, it.steps, it.set)
                memory = f", peak {peak:.0f} MiB" if peak else ""
                print(f"{ranks} ranks of {it.threads} threads, batch {batch}: {seconds:.3f} s a step, "
                      f"{1e3 * seconds / batch:.1f} ms a pair{memory}", flush=True)
                record = {"ranks": ranks, "threads": it.threads, "batch": batch, "seconds": seconds, "peak_mib": peak}
                out.write(json.dumps(record) + "\n")
                out.flush()


def features(ranks, batch):
    return [batch / ranks, 1.0, 2 * (ranks - 1) / ranks]


def fitted(runs):
    """Least squares over the relative errors, by the normal equations; without several ranks, no exchange."""
    width = 3 if any(it["ranks"] > 1 for it in runs) else 2
    rows = [[x / it["seconds"] for x in features(it["ranks"], it["batch"])[:width]] for it in runs]
    if len(rows) < width:
        sys.exit(f"{len(rows)} runs; expected at least {width}: two batches on one rank, and one on several")
    system = [[sum(r[i] * r[j] for r in rows) for j in range(width)] + [sum(r[i] for r in rows)] for i in range(width)]
    for i in range(width):
        pivot = max(range(i, width), key=lambda row: abs(system[row][i]))
        system[i], system[pivot] = system[pivot], system[i]
        for row in range(width):
            if row != i:
                factor = system[row][i] / system[i][i]
                system[row] = [a - factor * b for a, b in zip(system[row], system[i])]
    return [system[i][width] / system[i][i] for i in range(width)] + [0.0] * (3 - width)


def fit(arguments):
    runs = [json.loads(line) for line in open(arguments.runs)]
    held = {tuple(map(int, it.split(":"))) for it in arguments.held_out}
    used = [it for it in runs if (it["ranks"], it["batch"]) not in held]
    pair, fixed, exchange = fitted(used)
    print(f"pair {1e3 * pair:.1f} ms, fixed {1e3 * fixed:.1f} ms, exchange {1e3 * exchange:.1f} ms")
    for it in runs:
        predicted = sum(a * b for a, b in zip([pair, fixed, exchange], features(it["ranks"], it["batch"])))
        kind = "held out" if (it["ranks"], it["batch"]) in held else "fitted"
        error = predicted / it["seconds"] - 1
        print(f"{it['ranks']} ranks, batch {it['batch']}: {it['seconds']:.3f} s, predicted {predicted:.3f} s ({100 * error:+.1f} %, {kind})")


def plan(arguments):
    """Strong scaling: the same batch on more ranks."""
    gathered = 4 * arguments.views * arguments.batch * arguments.dim
    reduced = 4 * arguments.parameters
    fixed = (arguments.head_ms + arguments.optimiser_ms) / 1e3
    one = arguments.batch * arguments.pair_ms / 1e3 + fixed
    print(f"per step and rank: {gathered / 1e6:.1f} MB of points gathered, {reduced / 1e6:.0f} MB of gradients reduced")
    print("| ranks | " + " | ".join(f"step at {gbit} Gbit/s | efficiency" for gbit in arguments.gbit) + " |")
    print("|---:" * (1 + 2 * len(arguments.gbit)) + "|")
    ranks = 2
    while ranks <= min(1024, arguments.batch):
        cells = []
        for gbit in arguments.gbit:
            # Both exchanges send and receive about the whole amount once; sums send it twice.
            exchange = (gathered + 2 * reduced) * (ranks - 1) / ranks / (gbit * 1e9 / 8)
            rows = -(-arguments.batch // ranks)
            seconds = rows * arguments.pair_ms / 1e3 + fixed + exchange
            cells.append(f"{seconds:.2f} s | {100 * one / ranks / seconds:.0f} %")
        print(f"| {ranks} | " + " | ".join(cells) + " |")
        ranks *= 2


def main():
    numbers = lambda text: [int(it) for it in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="measure")
    one.add_argument("--program", required=True)
    one.add_argument("--config", required=True)
    one.add_argument("--ranks", type=numbers, default=[1, 2])
    one.add_argument("--batches", type=numbers, required=True)
    one.add_argument("--threads", type=int, default=1, help="threads of a rank")
    one.add_argument("--steps", type=int, default=6)
    one.add_argument("--set", action="append", default=[])
    one.add_argument("--out", default="scale.jsonl")
    one.set_defaults(run=run)
    one = commands.add_parser("fit", help="fit and compare")
    one.add_argument("runs")
    one.add_argument("--held-out", nargs="*", default=[], metavar="RANKS:BATCH")
    one.set_defaults(run=fit)
    one = commands.add_parser("plan", help="predict larger jobs")
    one.add_argument("--pair-ms", type=float, required=True, help="milliseconds of a rank for a sample, with its boxes")
    one.add_argument("--head-ms", type=float, required=True, help="milliseconds of the loss of the whole batch")
    one.add_argument("--optimiser-ms", type=float, default=100)
    one.add_argument("--batch", type=int, default=768)
    one.add_argument("--views", type=int, default=4)
    one.add_argument("--dim", type=int, default=512)
    one.add_argument("--parameters", type=int, default=60_000_000)
    one.add_argument("--gbit", type=numbers, default=[10, 100])
    one.set_defaults(run=plan)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
