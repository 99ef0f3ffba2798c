"""Search with other libraries, by the protocol of `torch_side.py`: faiss (exact inner products), PyTorch (exact
products), usearch (graph).

A case is `faiss/BATCH`, `torch_product/BATCH`, `torch_product_best/BATCH` or `usearch/EXPANSION`. The latter reads
rows, queries and the nearest rows from files in `BENCH_SEARCH_OUT`.
"""

import json
import math
import os
import pathlib
import sys
import time

import numpy as np

THREADS = int(os.environ.get("THREADS", "2"))
ROWS, DIM, BEST = 1_000_000, 512, 10


def faiss_flat(batch):
    import faiss

    faiss.omp_set_num_threads(THREADS)
    random = np.random.default_rng(0)
    index = faiss.IndexFlatIP(DIM)
    index.add(random.standard_normal((ROWS, DIM), dtype=np.float32))
    queries = random.standard_normal((batch, DIM), dtype=np.float32)
    return lambda: [float(len(index.search(queries, BEST)[1]))]


def torch_product(batch):
    """64 factors of 8 at curvature -1 as one expression over all rows.

    Uses log1p, because torch.acosh is slower; the excess of the rows is precomputed.
    """
    torch, rows, queries, excess_of = torch_points(batch)
    excess = excess_of(rows)

    def one(query):
        at = excess_of(query)
        u = (at + excess + at * excess - torch.einsum("nkd,kd->nk", rows, query)).clamp_min(0)
        return torch.log1p(u + torch.sqrt(u * (u + 2))).mean(1).topk(BEST, largest=False).indices

    return lambda: [float(sum(len(one(query)) for query in queries))]


def torch_product_best(batch):
    """The fastest variant found for `torch_product`: rows stored factor by factor, `bmm`, blocks of 10,000 rows.

    Times on two cores for a million rows, ms: this variant 308; blocks of 2,000 rows 343, of 50,000 rows 377; rows
    first with multiply and sum in blocks of 10,000 345; `einsum` in blocks of 2,000 517; a block-diagonal matrix
    632."""
    torch, rows, queries, excess_of = torch_points(batch)
    rows = rows.permute(1, 0, 2).contiguous()
    excess = excess_of(rows)

    def one(query):
        at = excess_of(query)[:, None]
        distances = []
        for start in range(0, ROWS, 10_000):
            some = excess[:, start : start + 10_000]
            dots = torch.bmm(rows[:, start : start + 10_000], query[:, :, None])[:, :, 0]
            u = (at + some + at * some - dots).clamp_min(0)
            distances.append(torch.log1p(u + torch.sqrt(u * (u + 2))).mean(0))
        return torch.cat(distances).topk(BEST, largest=False).indices

    return lambda: [float(sum(len(one(query)) for query in queries))]


def torch_points(batch):
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    excess = lambda points: torch.sqrt(1 + (points * points).sum(-1)) - 1
    return torch, torch.randn(ROWS, 64, 8) * 0.5, torch.randn(batch, 64, 8) * 0.5, excess


def usearch_graph(expansion):
    """HNSW with the hyperbolic distance as a compiled function (numba).

    Rows have their time as an additional coordinate.
    """
    from numba import carray, cfunc, types
    from usearch.index import CompiledMetric, Index, MetricKind, MetricSignature

    folder = pathlib.Path(os.environ["BENCH_SEARCH_OUT"])
    count = DIM

    @cfunc(types.float32(types.CPointer(types.float32), types.CPointer(types.float32)), fastmath=True)
    def minus_lorentz(a, b):
        x, y = carray(a, DIM + 1), carray(b, DIM + 1)
        total = np.float32(0)
        for i in range(count):
            total += x[i] * y[i]
        # cosh(d) - 1, which grows with the distance d.
        return x[count] * y[count] - total - np.float32(1)

    def timed(name):
        points = np.fromfile(folder / name, dtype=np.float32).reshape(-1, DIM)
        times = np.sqrt(1 + (points.astype(np.float64) ** 2).sum(1, keepdims=True)).astype(np.float32)
        return np.ascontiguousarray(np.hstack([points, times]))

    rows, queries = timed("rows.f32"), timed("queries.f32")
    nearest = np.fromfile(folder / "nearest.u32", dtype=np.uint32).reshape(-1, BEST)
    metric = CompiledMetric(pointer=minus_lorentz.address, kind=MetricKind.IP, signature=MetricSignature.ArrayArray)
    index = Index(ndim=DIM + 1, metric=metric, dtype="f32", expansion_search=expansion)
    start = time.monotonic()
    index.add(np.arange(len(rows)), rows, threads=THREADS)
    print(f"usearch: {len(rows)} rows in {time.monotonic() - start:.1f} s", file=sys.stderr)

    def search():
        found = index.search(queries, BEST, threads=THREADS).keys
        recall = np.mean([len(set(a.tolist()) & set(b.tolist())) / BEST for a, b in zip(found, nearest)])
        return [math.nan, float(recall), float(expansion)]

    return search


KINDS = {"faiss": faiss_flat, "torch_product": torch_product, "torch_product_best": torch_product_best, "usearch": usearch_graph}


def main():
    cases = {}
    for line in sys.stdin:
        name, iterations = line.split()
        kind, number = name.split("/")
        if name not in cases:
            cases[name] = KINDS[kind](int(number))
        step, ms, check = cases[name], [], []
        step()
        for _ in range(int(iterations)):
            start = time.perf_counter()
            check = step()
            ms.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"case": name, "ms": ms, "check": [None if math.isnan(it) else it for it in check], "peak_mb": None, "extra_mb": None}), flush=True)


if __name__ == "__main__":
    main()
