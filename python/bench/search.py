#!/usr/bin/env python3
"""`conifer.Index.search` beside the Rust bench on the same million points of 512 numbers, rounds alternated.

    cargo build --release -p conifer-bench
    python/bench/search.py target/release/conifer-bench [--rounds 12] [--out results.jsonl]

The bench makes the points (`plain15`: no order, at 1.2 to 1.8 from the origin) and writes them for this process. Every
round measures both sides for one query and for 256, ten best rows each. The rows found must be equal. Needs 8 GB of memory.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# Batch: steps per round.
STEPS = {1: 9, 256: 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the program conifer-bench, built in the release profile")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--data", default="plain15", help="a data set of bench/src/search.rs with `@ROWS` for fewer rows")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if not given.program.exists():
        raise SystemExit(f"{given.program} does not exist; expected conifer-bench, which cargo builds")
    sys.path.insert(0, str(ROOT / "bench"))
    from harness import Side

    import conifer

    threads = conifer.num_threads()
    with tempfile.TemporaryDirectory() as folder:
        rust = Side([str(given.program)], threads, BENCH_SEARCH_OUT=folder)
        rust.measure(f"search_{given.data}/write", 0)
        place = Path(folder)
        rows = np.fromfile(place / "rows.f32", np.float32).reshape(-1, 512)
        queries = np.fromfile(place / "queries.f32", np.float32).reshape(-1, 512)
        nearest = np.fromfile(place / "nearest.u32", np.uint32).reshape(len(queries), -1)
    index = conifer.Index(rows, conifer.Lorentz(512))
    del rows
    found = index.search(queries, k=nearest.shape[1])
    if not np.array_equal(found.rows, nearest):
        raise SystemExit(f"{int((found.rows != nearest).sum())} rows differ from those of the bench; expected none")
    print(f"{len(index):,} rows, {threads} threads, load {os.getloadavg()[0]:.2f}, equal rows")
    taken = {batch: {"rust": [], "python": []} for batch in STEPS}
    turn = 0
    for _ in range(given.rounds):
        for batch, steps in STEPS.items():
            taken[batch]["rust"].append(rust.measure(f"search_{given.data}/distance/{batch}/flat", steps)["ms"])
            ms = []
            for step in range(steps + 1):
                # The bench goes through the queries in the same way. The first search of a round is not counted.
                turn = 0 if turn + batch > len(queries) else turn
                part = queries[turn] if batch == 1 else queries[turn : turn + batch]
                turn += batch
                start = time.perf_counter()
                index.search(part, k=10)
                if step:
                    ms.append(1e3 * (time.perf_counter() - start))
            taken[batch]["python"].append(ms)
    rust.close()
    for batch, sides in taken.items():
        ratios = [statistics.median(b) / statistics.median(a) for a, b in zip(sides["rust"], sides["python"])]
        rust_ms, python_ms = (statistics.median(sum(sides[side], [])) for side in ("rust", "python"))
        ratio = statistics.median(ratios)
        print(f"{batch:4} queries: bench {rust_ms:8.2f} ms, Python {python_ms:8.2f} ms, ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        if given.out:
            record = {"case": f"search_{given.data}/distance/{batch}", "ms": sides, "ratio": ratio, "threads": threads}
            with given.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
