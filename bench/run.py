#!/usr/bin/env python3
"""Compares conifer with PyTorch. Both sides run in interleaved rounds, and the raw rounds are stored.

    python3 bench/run.py                              the table of docs/performance.md, three rounds
    python3 bench/run.py --rounds 5 head_clip 'eval_*'  some cases, by name or pattern
    python3 bench/run.py --threads 1,2 vit_s16_train  the same on one thread and on two
    python3 bench/run.py --table FILE                 the table of a stored run
    python3 bench/run.py --into docs/performance.md   also writes the table into that file

On first use it creates a virtual environment with PyTorch from PyPI next to this file; PyTorch is not a dependency of
the project. It builds conifer's programs in release mode and prints Markdown: medians of the rounds, the ratio
PyTorch's time / ours, aims, scaling and memory. PyTorch is measured twice, with default settings and configured to
keep freed pages (its fastest setting here).
"""

import argparse
import fnmatch
import json
import os
import sys

import harness
import report
from harness import GROUNDED, KEEP_PAGES, MERGES, PHOTOS, Side

SPACES = {
    "sphere": "sphere",
    "euclidean": "Euclidean",
    "lorentz": "Lorentz",
    "product_l1": "product l1 of 64 x 8",
    "product_l2": "product l2 of 64 x 8",
}
CASES = {
    "vit_b16_forward": ("ViT-B/16 forward, batch 8", 3),
    "vit_s16_train": ("ViT-S/16 training step, batch 8", 3),
    "text_forward": ("text tower forward, 32 x 77", 3),
    "text_bucketed": ("256 captions of Flickr8k: ours by length, PyTorch's padded to 77", 1),
    "text_bucketed_longest": ("the same captions: ours by length, PyTorch's padded to the longest of each batch of 32", 1),
    "text_finetune": ("text tower fine-tuning step, 8 chains of 8 texts of 20 tokens, radial loss", 3),
    "t5_train": ("training step of a T5 of Flan-T5-small's size, 32 pairs of 24 tokens", 2),
    "t5_decode": ("64 texts of 24 tokens sampled from it, for 8 inputs", 2),
    "head_clip": ("CLIP head, B = 768, D = 512, forward + backward", 5),
    "head_meru": ("MERU head, same", 5),
    "head_hycoclip": ("HyCoCLIP head, same, boxes", 3),
    "head_phyclip": ("PHyCLIP head, k = 64, d = 8, boxes", 1),
    "head_phyclip_pair": ("PHyCLIP logits + InfoNCE of one pair, same factors", 1),
    "head_angle": ("angle head, 640 wholes x 1,280 parts, D = 128, multi-positive, forward + backward", 3),
    "step_hycoclip": ("HyCoCLIP ViT-S/16 training step, 16 photos with boxes (32 photos, 32 texts), loader included", 2),
    **{f"eval_classify_{space}": (f"50,000 photos x 1,000 classes, dim 512, {words}: macro accuracy", 1) for space, words in SPACES.items()},
    **{f"eval_retrieve_{space}": (f"5,000 photos x 25,000 captions, {words}: Recall@1/5/10 both ways", 1) for space, words in SPACES.items()},
    "eval_hierarcaps": ("HierarCaps, 1,000 photos x 4,000 texts x 50 levels", 3),
    "loader": ("100 photos: JPEG to RandomResizedCrop(224), bicubic, one thread", 3),
    "loader_large": ("20 photos of 2,000 pixels: the same, decoded in full", 3),
    "loader_large_scaled": ("the same, decoded at scale (Pillow: `Image.draft`)", 3),
}
# Cases that need files from outside the repository. Without them they are skipped, and the report says so.
NEEDS = {"loader": [PHOTOS], "loader_large": [PHOTOS], "loader_large_scaled": [PHOTOS], "step_hycoclip": [GROUNDED, MERGES]}
# Cases that only run when they are named on the command line.
APART = ("eval_*", "text_finetune", "t5_*")
# Cases that are also measured on one thread.
SCALED = ["vit_s16_train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"names or patterns; {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", help="one or more thread counts, separated by commas (default: all cores)")
    parser.add_argument("--out", help="file for the raw rounds (default: bench/results/DATE-CPU-speed.jsonl)")
    parser.add_argument("--table", metavar="FILE", help="render a stored run without measuring")
    parser.add_argument("--into", metavar="FILE", help="also write the table between the `speed` markers of this file")
    parser.add_argument("--no-build", action="store_true", help="use the existing programs in target/release")
    args = parser.parse_args()
    words = {case: words for case, (words, _) in CASES.items()}
    if args.table:
        return show(args.table, words, args.into)

    for pattern in args.cases:
        if not fnmatch.filter(CASES, pattern):
            parser.error(f"unknown case {pattern}; known: {', '.join(CASES)}")
    ours = [case for case in CASES if not any(fnmatch.fnmatch(case, it) for it in APART)]
    cases = list(dict.fromkeys(case for pattern in args.cases for case in fnmatch.filter(CASES, pattern))) or ours
    all_cores = os.cpu_count() or 1
    jobs = [(case, int(it)) for it in (args.threads or str(all_cores)).split(",") for case in cases]
    if not args.cases and not args.threads and all_cores > 1:
        jobs += [(case, 1) for case in SCALED]

    programs = harness.target() if args.no_build else harness.build()
    # Resolved before the measurements, so that a missing program stops the run at once.
    torch_command = [harness.python(), str(harness.HERE / "torch_side.py")]
    with harness.results("speed", args.out) as out:
        print(f"raw rounds: {out.name}", file=sys.stderr)
        keep = lambda record: out.write(json.dumps(record) + "\n")
        keep(harness.machine())
        failed = False
        for case, threads in jobs:
            if absent := [path for path in NEEDS.get(case, []) if not path.exists()]:
                why = f"found no {absent[0].name} (set BENCH_DATA or BENCH_PHOTOS)"
                print(f"{case}: skipped, {why}", file=sys.stderr)
                keep({"kind": "skipped", "case": case, "why": why})
                continue
            if case == "step_hycoclip":
                harness.shards(programs)
            if case.startswith("loader_large"):
                harness.large_photos()
            try:
                measure(case, threads, args.rounds, programs / "conifer-bench", torch_command, keep)
            except harness.Ended as error:
                print(error, file=sys.stderr)
                keep({"kind": "failed", "case": case, "why": str(error)})
                failed = True
    show(out.name, words, args.into)
    sys.exit(failed)


def show(path, words, into):
    found = report.render(*harness.read(path), words)
    print(found)
    if into:
        harness.write_into(into, "speed", f"## Against PyTorch\n\n{found}")


def measure(case, threads, rounds, program, torch_command, keep):
    """Measures all rounds of a case.

    Each case and side has its own process, so that memory kept from one case does not affect the next.
    """
    extra = {}
    if case.startswith("text_bucketed"):
        # Both sides embed texts with the same numbers of tokens.
        lengths = Side([program], threads)
        extra["BENCH_LENGTHS"] = ",".join(str(int(it)) for it in lengths.measure("text_lengths", 1)["check"])
        lengths.close()
    sides = {
        "ours": Side([program], threads),
        "torch": Side(torch_command, threads, **extra),
        "kept": Side(torch_command, threads, GLIBC_TUNABLES=KEEP_PAGES, **extra),
    }
    for number in range(1, rounds + 1):
        for name, side in sides.items():
            found = side.measure(case, CASES[case][1])
            keep({"kind": "round", "side": name, "threads": threads, "round": number, **found})
            print(f"round {number} {case} {name}, {threads} threads: {harness.median(found['ms']):.1f} ms", file=sys.stderr)
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    main()
