#!/usr/bin/env python3
"""Ratios to PyTorch: one command, both sides in one run, interleaved rounds.

    python3 bench/run.py                     all cases, three rounds
    python3 bench/run.py --rounds 5 head_clip head_meru

Makes a virtual environment with PyTorch from PyPI beside this file on first use (never a dependency of the
project), builds `conifer-bench` in release mode, and prints a Markdown table: median of rounds, ratio =
PyTorch's time / ours, and PyTorch twice, as it comes and told to keep freed pages (its best setting here).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
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
    "text_finetune": ("text tower fine-tuning step, 8 chains of 8 texts of 20 tokens, radial loss", 3),
    "head_clip": ("CLIP head, B = 768, D = 512, forward + backward", 5),
    "head_meru": ("MERU head, same", 5),
    "head_hycoclip": ("HyCoCLIP head, same, boxes", 3),
    "head_phyclip": ("PHyCLIP head, k = 64, d = 8, boxes", 1),
    **{f"eval_classify_{space}": (f"50,000 photos x 1,000 classes, dim 512, {words}: macro accuracy", 1) for space, words in SPACES.items()},
    **{f"eval_retrieve_{space}": (f"5,000 photos x 25,000 captions, {words}: Recall@1/5/10 both ways", 1) for space, words in SPACES.items()},
    "eval_hierarcaps": ("HierarCaps, 1,000 photos x 4,000 texts x 50 levels", 3),
    "loader": ("100 photos: JPEG to RandomResizedCrop(224), bicubic, one thread", 3),
    "loader_large": ("20 photos of 2,000 pixels: the same, decoded in full", 3),
    "loader_large_scaled": ("the same, decoded at scale (Pillow: `Image.draft`)", 3),
}
# JPEG files for the case `loader`; both sides read the first hundred by name.
PHOTOS = pathlib.Path(os.environ.get("BENCH_PHOTOS", HERE.parent.parent / "shared/data/coco_mini/val2017"))
KEEP_PAGES = "glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"


class Side:
    def __init__(self, command, **environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )

    def measure(self, case, iterations):
        self.process.stdin.write(f"{case} {iterations}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args}: ended while measuring {case}")
        answer = json.loads(line)
        return statistics.median(answer["ms"]), answer["check"]

    def peak(self):
        """Most memory so far, MB, the making of the inputs included."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        return self


def python():
    if "BENCH_PYTHON" in os.environ:
        return os.environ["BENCH_PYTHON"]
    venv = HERE / ".venv"
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", "torch", "torchvision", "numpy", "pillow"], check=True)
    return str(venv / "bin/python")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    cases = args.cases or list(CASES)
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"unknown case {unknown[0]}; known: {chr(44).join(CASES)}")

    if any(case.startswith("loader") for case in cases) and not PHOTOS.is_dir():
        print(f"loader: skipped, no photos in {PHOTOS}; BENCH_PHOTOS names a folder of JPEG files", file=sys.stderr)
        cases = [case for case in cases if not case.startswith("loader")]

    large = tempfile.TemporaryDirectory()
    os.environ["BENCH_LARGE_PHOTOS"] = large.name
    if any(case.startswith("loader_large") for case in cases):
        subprocess.run([python(), str(HERE / "large_photos.py"), str(PHOTOS), large.name], check=True)

    # The whole workspace, as the README builds it: other selections of crates would build the engine again.
    subprocess.run(["cargo", "build", "--release"], cwd=HERE.parent, check=True)
    target = json.loads(subprocess.run(["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=HERE.parent, check=True, capture_output=True).stdout)["target_directory"]
    threads = {"THREADS": "2", "OMP_NUM_THREADS": "2", "RAYON_NUM_THREADS": "2", "BENCH_PHOTOS": str(PHOTOS)}
    torch_command = [python(), str(HERE / "torch_side.py")]

    times = {case: {"ours": [], "torch": [], "kept": []} for case in cases}
    checks = {case: {} for case in cases}
    peaks = {}
    # One process per case and side: memory kept from one case must not help or hurt the next.
    for case in cases:
        sides = {
            "ours": Side([f"{target}/release/conifer-bench"], **threads),
            "torch": Side(torch_command, **threads),
            "kept": Side(torch_command, GLIBC_TUNABLES=KEEP_PAGES, **threads),
        }
        for round_number in range(args.rounds):
            for name, side in sides.items():
                ms, check = side.measure(case, CASES[case][1])
                times[case][name].append(ms)
                checks[case][name] = check
                print(f"round {round_number + 1} {case} {name}: {ms:.1f} ms", file=sys.stderr)
        peaks[case] = sides["ours"].peak()
        for side in sides.values():
            side.close()

    print("| work | ours, ms | PyTorch, ms | ratio | PyTorch, pages kept, ms | ratio |\n|---|---|---|---|---|---|")
    for case in cases:
        ours, torch, kept = (statistics.median(times[case][name]) for name in ("ours", "torch", "kept"))
        print(f"| {CASES[case][0]} | {ours:.1f} | {torch:.1f} | {torch / ours:.2f} | {kept:.1f} | {kept / ours:.2f} |")
    for case in cases:
        ours, torch = (", ".join(f"{it:.6f}" for it in checks[case][name]) for name in ("ours", "torch"))
        if case.startswith("head_"):
            print(f"\n{case}: loss ours {ours}, PyTorch {torch}", end="")
        if case.startswith("eval_"):
            print(f"\n{case}: ours {ours}; PyTorch {torch}; our peak {peaks[case]:.0f} MB", end="")
    print()


if __name__ == "__main__":
    main()
