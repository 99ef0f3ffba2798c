#!/usr/bin/env python3
"""Measures the projections of crate `viz`, and HoroPCA and CO-SNE beside the same formulas in PyTorch (f64, autograd), in
interleaved rounds. Raw rounds are stored, and a table is printed as Markdown.

    cargo build --release -p conifer-viz --example projection_speed
    python3 bench/projections.py [--rounds 3] [--program target/release/examples/projection_speed] [--only horopca]
    python3 bench/projections.py --table                 prints the table of the stored rounds

The rounds are stored in `bench/results/projections.jsonl`; a new measurement of a case replaces them. `BENCH_PROJECTIONS_PYTHON`
names a Python with torch and numpy; without it a virtual environment is created next to this file. Both sides read the same
rows and do the same number of steps. PyTorch starts from fixed directions and positions and evaluates all pairs of CO-SNE in
one table; ours also chooses its start and measures the result.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import tempfile
import time

import harness
from harness import HERE, ROOT, Side, median

VENV = HERE / ".venv-projections"
PACKAGES = ["torch", "numpy"]
RESULTS = HERE / "results/projections.jsonl"
PROGRAM = ROOT / "target/release/examples/projection_speed"

# name, our case, PyTorch's case, its share of the steps, aims
CASES = [
    ("HoroPCA, 10,000 x 512, 2 components, 100 steps", "horopca/10000/512/2/100", "horopca/10000/512/2/10", 0.1, {"s": 30, "mb": 500, "ratio": 5}),
    ("CO-SNE, 5,000 x 50, 500 iterations", "cosne/5000/50/500", "cosne/5000/50/10", 0.02, {"s": 60, "ratio": 3}),
    ("CO-SNE, 5,000 x 512, 500 iterations", "cosne/5000/512/500", None, None, {"s": 60}),
    ("CO-SNE with the tree, 100,000 x 50, 500 iterations", "cosne-tree/100000/50/500", None, None, {"s": 900}),
    ("UMAP, 100,000 x 512, 200 epochs", "umap/100000/512/200", None, None, {"s": 240}),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM)
    parser.add_argument("--only", default="", help="measure only the cases whose text, such as horopca/, starts with this")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.torch:
        return torch_side()
    if not given.table:
        measure(given)
    table()


def measure(given):
    if not given.program.exists():
        sys.exit(f"{given.program} does not exist; build it first:\n    cargo build --release -p conifer-viz --example projection_speed")
    threads = os.cpu_count()
    python = harness.python("BENCH_PROJECTIONS_PYTHON", VENV, PACKAGES)
    machine = {"cpu": harness.cpu_generation(), "cores": threads, "date": harness.datetime.date.today().isoformat()}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, ours, torch, share, _ in CASES:
            if not ours.startswith(given.only):
                continue
            # A process per case, so that the peak memory is that of the case.
            for number in range(1, given.rounds + 1):
                for side, case in [("ours", ours), ("torch", torch)]:
                    if case is None:
                        continue
                    command = [given.program] if side == "ours" else [python, __file__, "--torch"]
                    if side == "torch":
                        kind, rows, dim = case.split("/")[:3]
                        path = pathlib.Path(folder) / f"{rows}-{dim}.f64"
                        if not path.exists():
                            writer = Side([given.program], threads)
                            writer.measure(f"write/{rows}/{dim}/{path}", 1)
                            writer.close()
                        case = f"{case}/{path}"
                    process = Side(command, threads)
                    reply = process.measure(case, 1)
                    process.close()
                    case = "/".join(part for part in case.split("/") if not part.endswith(".f64") and part not in folder.split("/"))
                    found.append({"kind": "round", "name": name, "side": side, "round": number, "case": case, "share": share if side == "torch" else 1, **machine, **reply})
                    print(json.dumps(found[-1]), flush=True)
    # The rounds of cases that were not measured now are kept.
    measured = {it.get("name") for it in found}
    earlier = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    found += [it for it in earlier if it["kind"] == "round" and it["name"] not in measured]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("".join(json.dumps(it) + "\n" for it in found))


def table():
    rounds = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    print("| work | s | peak MB | PyTorch, s | ratio | aims | measured on |\n|---|---|---|---|---|---|---|")
    for name, _, _, _, aims in CASES:
        of = lambda side: [it for it in rounds if it.get("name") == name and it["side"] == side]
        ours, torch = of("ours"), of("torch")
        if not ours:
            continue
        seconds = median([it["ms"][0] / 1e3 for it in ours])
        memory = max(it["peak_mb"] for it in ours)
        values = {"s": seconds, "mb": memory}
        peer = ratio = ""
        if torch:
            peer = median([it["ms"][0] / 1e3 / it["share"] for it in torch])
            values["ratio"] = peer / seconds
            peer, ratio = f"{peer:.1f}", f"{values['ratio']:.1f}"
        texts = {"s": "<= {} s", "mb": "<= {} MB", "ratio": ">= {} x"}
        met = lambda aim, limit: values[aim] >= limit if aim == "ratio" else values[aim] <= limit
        shown = ", ".join(texts[aim].format(limit) + (" met" if met(aim, limit) else " **not met**") for aim, limit in aims.items())
        machine = f"{ours[0]['cpu']}, {ours[0]['cores']} cores, {ours[0]['date']}"
        print(f"| {name} | {seconds:.1f} | {memory:.0f} | {peer} | {ratio} | {shown} | {machine} |")


def torch_side():
    """Answers lines `CASE ROUNDS` as `projection_speed` does, with PyTorch."""
    import numpy
    import torch

    torch.set_num_threads(int(os.environ["THREADS"]))
    for line in sys.stdin:
        case, _ = line.split()
        kind, rows, dim, *more = case.split("/")
        rows, dim = int(rows), int(dim)
        steps = int(more[1] if kind == "horopca" else more[0])
        path = "/".join(more[2:] if kind == "horopca" else more[1:])
        x = torch.from_numpy(numpy.fromfile(path, dtype="<f8").reshape(rows, dim))
        start = time.monotonic()
        value = horopca(torch, x, int(more[0]), steps) if kind == "horopca" else cosne(torch, x, steps)
        ms = (time.monotonic() - start) * 1e3
        print(json.dumps({"ms": [round(ms, 1)], "check": value, "peak_mb": 0}), flush=True)


def acosh_1p(torch, u):
    return torch.log1p(u + torch.sqrt(u * (u + 2)))


def horopca(torch, x, components, steps):
    """Gradient steps for each component on 1,000,000 pairs: row i with row i + o for 100 random offsets o."""
    rows, dim = x.shape
    generator = torch.Generator().manual_seed(0)
    offsets = torch.randperm((rows - 1) // 2, generator=generator)[: 1_000_000 // rows] + 1
    i = torch.arange(rows).repeat(len(offsets))
    j = (i + offsets.repeat_interleave(rows)) % rows
    time_of = torch.sqrt(1 + (x * x).sum(1))
    fixed, value = [], 0.0
    for _ in range(components):
        p = torch.randn(dim, dtype=torch.float64, generator=generator)
        for _ in range(steps):
            p = (p - sum((q @ p) * q for q in fixed)) if fixed else p
            p = (p / p.norm()).detach().requires_grad_()
            a = torch.stack([time_of - x @ q for q in [*fixed, p]], 1)
            total, square, others = a.sum(1), (a * a).sum(1), a.shape[1] - 1
            root = torch.sqrt((total * total - others * (square + 1)).clamp_min(1e-12))
            t = (square + 1) / (total + root)
            h = t[:, None] - a
            u = (((h[i] - h[j]) ** 2).sum(1) - (t[i] - t[j]) ** 2).clamp_min(1e-18) / 2
            variance = (acosh_1p(torch, u) ** 2).mean()
            (gradient,) = torch.autograd.grad(variance, p)
            p = p.detach() + 0.1 * gradient / gradient.norm()
            value = variance.item()
        fixed.append((p / p.norm()).detach())
    return value


def cosne(torch, x, steps):
    """Gradient steps on the table of all pairs, with given similarities (a Gaussian of fixed width; the search for the perplexity is
    not timed)."""
    rows = x.shape[0]
    t = torch.sqrt(1 + (x * x).sum(1))
    cosh = (t[:, None] * t[None] - x @ x.T).clamp_min(1 + 1e-12)
    square = torch.acosh(cosh) ** 2
    p = torch.exp(-square / square.mean() * 20)
    p.fill_diagonal_(0)
    p = p / p.sum()
    norms = (x * x).sum(1) / (1 + t) ** 2
    y = 1e-2 * torch.randn(rows, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    speed = torch.zeros_like(y)
    gamma = 0.1
    own = torch.eye(rows, dtype=torch.bool)
    begin = time.monotonic()
    value = 0.0
    for _ in range(steps):
        y = y.detach().requires_grad_()
        size = (y * y).sum(1)
        chord = ((y[:, None] - y[None]) ** 2).sum(2)
        u = 2 * chord / (1 - size)[:, None] / (1 - size)[None]
        # The distance has no derivative at zero, on the diagonal.
        d = acosh_1p(torch, u.masked_fill(own, 1.0))
        w = (gamma / (d * d + gamma * gamma)).masked_fill(own, 0.0)
        loss = -(p * torch.log(w.masked_fill(own, 1.0))).sum() + torch.log(w.sum()) + ((norms - size) ** 2).mean()
        (gradient,) = torch.autograd.grad(loss, y)
        metric = (2 / (1 - size.detach())) ** 2
        speed = 0.8 * speed - rows * 0.02 * gradient / metric[:, None]
        y = y.detach() + speed
        length = y.norm(dim=1, keepdim=True)
        y = torch.where(length > 0.999, y / length * 0.999, y)
        value = loss.item()
    return value if math.isfinite(value) and time.monotonic() > begin else -1.0


if __name__ == "__main__":
    main()
