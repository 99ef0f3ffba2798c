#!/usr/bin/env python3
"""Measures how the cost grows: training step over batch size, PHyCLIP head over factors, loader over threads, text
tower over length.

    python3 bench/growth.py                 measures all groups, stores the raw times, draws docs/pictures/growth_*.svg
    python3 bench/growth.py head loader     measures some groups
    python3 bench/growth.py --draw FILE     draws a stored run again
    python3 bench/growth.py --into docs/performance.md   also writes pictures and numbers into that file

Only conifer is measured here; `run.py` compares it with PyTorch.
"""

import argparse
import json
import os
import pathlib
import sys

import harness
import plot
from harness import PHOTOS, ROOT, Side

PICTURES = ROOT / "docs/pictures"
# Number of photos that a loader case reads: eight batches of 64.
READ = 512


def step():
    batches = [8, 16, 32, 64, 128]
    kinds = {"train": "ViT-S/16", "checkpointed": "checkpointed"}
    return [
        (f"grow_{kind}_{it}", os.cpu_count(), max(1, 32 // it), {"series": series, "x": it})
        for kind, series in kinds.items()
        for it in batches
    ]


def head():
    factors = [1, 2, 4, 8, 16, 32, 64, 128]
    whole = [(f"grow_phyclip_{k}_{512 // k}", os.cpu_count(), 2, {"series": "d = 512 / k", "x": k}) for k in factors]
    eight = [(f"grow_phyclip_{k}_8", os.cpu_count(), 2, {"series": "d = 8", "x": k}) for k in factors]
    return whole + eight


def loader():
    threads = [it for it in (1, 2, 4, 8, 16, 32, 64, 128) if it < os.cpu_count()] + [os.cpu_count()]
    return [(f"grow_loader_{it}", it, 1, {"series": "one process", "x": it}) for it in threads]


def text():
    return [(f"grow_text_{it}", os.cpu_count(), 3, {"series": "32 texts", "x": it}) for it in (4, 8, 12, 16, 24, 32, 48, 64, 77)]


GROUPS = {"step": step, "head": head, "loader": loader, "text": text}
# File name, title, axis labels, and the conversion from milliseconds to y (None: y is the extra memory).
DRAWN = {
    "step": ("growth_step", "ViT-S/16 training step", "photos in a batch", "ms", lambda ms: ms),
    "step_memory": ("growth_memory", "ViT-S/16 training step: memory", "photos in a batch", "MB above weights and inputs", None),
    "head": ("growth_head", "PHyCLIP head with boxes, B = 768, forward + backward", "factors k", "ms", lambda ms: ms),
    "loader": ("growth_loader", "Loader: JPEG to RandomResizedCrop(224)", "threads", "photos a second", lambda ms: READ / ms * 1e3),
    "text": ("growth_text", "Text tower, 32 texts, forward", "tokens in a text", "ms", lambda ms: ms),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="file for the raw rounds (default: bench/results/DATE-CPU-growth.jsonl)")
    parser.add_argument("--draw", metavar="FILE", help="draw a stored run without measuring")
    parser.add_argument("--pictures", default=PICTURES, help="output folder for the pictures (default: docs/pictures)")
    parser.add_argument("--into", metavar="FILE", help="also write pictures and numbers between the `growth` markers of this file")
    parser.add_argument("--no-build", action="store_true", help="use the existing programs in target/release")
    args = parser.parse_args()
    if args.draw:
        return draw(args.draw, args.pictures, args.into)
    if unknown := [it for it in args.groups if it not in GROUPS]:
        parser.error(f"unknown group {unknown[0]}; known: {', '.join(GROUPS)}")
    program = (harness.target() if args.no_build else harness.build()) / "conifer-bench"
    with harness.results("growth", args.out) as out:
        print(f"raw rounds: {out.name}", file=sys.stderr)
        out.write(json.dumps(harness.machine()) + "\n")
        for group in args.groups or GROUPS:
            if group == "loader" and not PHOTOS.is_dir():
                print(f"loader: skipped, no photos in {PHOTOS}", file=sys.stderr)
                continue
            for case, threads, iterations, place in GROUPS[group]():
                if group == "step" and (need := needed(out.name, place["x"])) > 0.8 * available():
                    print(f"{case}: skipped, it would take about {need:.0f} MB", file=sys.stderr)
                    out.write(json.dumps({"kind": "skipped", "case": case, "why": f"about {need:.0f} MB needed"}) + "\n")
                    continue
                # One process per case, because memory kept from a larger case would speed up a smaller one.
                side = Side([program], threads)
                for number in range(1, args.rounds + 1):
                    found = side.measure(case, iterations)
                    record = {"kind": "growth", "group": group, "threads": threads, "round": number, **place, **found}
                    out.write(json.dumps(record) + "\n")
                side.close()
                print(f"{case}, {threads} threads: {harness.median(found['ms']):.1f} ms", file=sys.stderr)
    draw(out.name, args.pictures, args.into)


def needed(path, batch):
    """Estimated MB for a step with `batch` photos, in proportion to the last measured step; 0 if none was measured."""
    _, records = harness.read(path)
    last = [it for it in records if it["kind"] == "growth" and it["group"] == "step" and it["extra_mb"]]
    return last[-1]["extra_mb"] * batch / last[-1]["x"] if last else 0.0


def available():
    """MB of available memory."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return int(next(it for it in lines if it.startswith("MemAvailable")).split()[1]) * 1024 / 1e6


def draw(path, folder, into):
    """Draws a picture for each group of a stored run and prints the numbers as Markdown."""
    header, records = harness.read(path)
    told = [f"Measured {header['date'][:10]} on {header['cores']} cores of {header['cpu']}, commit {(header['commit'] or 'unknown')[:12]}. Dashed line: cost proportional to x."]
    for key, (name, title, x_label, y_label, value) in DRAWN.items():
        series = {}
        for record in (it for it in records if it["kind"] == "growth" and it["group"] == key.split("_")[0]):
            found = record["extra_mb"] if value is None else value(harness.median(record["ms"]))
            if found is not None:
                series.setdefault(record["series"], {}).setdefault(record["x"], []).append(found)
        # Maximum over rounds for memory, median over rounds for times.
        pick = max if value is None else harness.median
        lines = {label: [(x, pick(ys)) for x, ys in sorted(line.items())] for label, line in series.items()}
        if not lines:
            continue
        picture = pathlib.Path(folder) / f"{name}.svg"
        picture.write_text(plot.curves(title, x_label, y_label, lines))
        places = sorted({x for line in lines.values() for x, _ in line})
        rows = [f"| {x_label} | " + " | ".join(str(x) for x in places) + " |", "|---" * (len(places) + 1) + "|"]
        for label, line in lines.items():
            values = dict(line)
            rows.append(f"| {label}, {y_label} | " + " | ".join(plot.number(values[x]) if x in values else "" for x in places) + " |")
        link = os.path.relpath(picture, pathlib.Path(into).parent if into else ROOT)
        told += [f"![{title}: {y_label} over {x_label}]({link})", "\n".join(rows)]
    found = "\n\n".join(told)
    print(found)
    if into:
        harness.write_into(into, "growth", f"## How cost grows\n\n{found}")


if __name__ == "__main__":
    main()
