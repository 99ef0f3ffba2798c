#!/usr/bin/env python3
"""Time and memory of `pairwise_distance` and `phyclip_loss` beside the same formulas in torch, geoopt and hypll, in one
process, rounds alternated. The formulas of torch are those of `bench/torch_side.py`, written as a torch user writes them.

    python/bench/compare.py [--rounds 10] [--keep-pages] [--out results.jsonl]

`--keep-pages` sets glibc so that torch keeps the pages of freed blocks, as the allocator of conifer does: page faults
are most of the time of the product's formulas in torch. geoopt and hypll are measured where they are installed. Their
functions of all pairs broadcast the points, so they take gigabytes of memory here and a third of the rounds.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEEP = "glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def compare(name, ours, theirs, rounds, check, peer="torch"):
    """Alternated rounds after one that is not counted. Returns the record."""
    check(ours(), theirs())
    taken = {"conifer": [], peer: []}
    for _ in range(rounds):
        taken["conifer"].append(timed(ours)[0])
        taken[peer].append(timed(theirs)[0])
    ratios = [b / a for a, b in zip(*taken.values())]
    record = {"case": name, "seconds": taken, "ratio": statistics.median(ratios), "lowest_ratio": min(ratios)}
    ms = {side: 1e3 * statistics.median(values) for side, values in taken.items()}
    times = f"{ms['conifer']:9.2f} ms  {ms[peer]:9.2f} ms"
    print(f"{name:44} {times}  {record['ratio']:6.1f} x  (lowest {min(ratios):.1f} x)")
    return record


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--keep-pages", action="store_true")
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    if given.keep_pages and os.environ.get("GLIBC_TUNABLES") != KEEP:
        os.environ["GLIBC_TUNABLES"] = KEEP
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.path.insert(0, str(ROOT / "bench"))
    os.environ.setdefault("THREADS", str(os.cpu_count()))

    import torch
    import torch_side

    import conifer
    import conifer.torch as ct

    threads = f"{torch.get_num_threads()} threads of torch, {conifer.num_threads()} of conifer"
    print(f"{threads}, load {os.getloadavg()[0]:.2f}")
    records = []

    def near(tolerance):
        def check(a, b):
            torch.testing.assert_close(torch.as_tensor(a), b, rtol=tolerance, atol=tolerance)

        return check

    one = torch.tensor(1.0)
    x, y = (torch_side.filled(1000, 512, scale=0.1, phase=phase) for phase in (0.0, 0.4))
    lorentz, product = conifer.Lorentz(512), conifer.Product(64, 8)
    a, b = x.numpy(), y.numpy()
    records.append(
        compare(
            "pairwise_distance 1000 x 1000, Lorentz 512",
            lambda: lorentz.pairwise_distance(a, b),
            lambda: torch_side.pairwise_dist(x, y, one),
            given.rounds,
            # Near distance 0 both are off by up to sqrt(2 eps) = 5e-4 in float32: conifer by 4e-4 here, torch by 6e-4.
            near(2e-3),
        )
    )

    def product_distance(x, y):
        x, y = (values.reshape(len(values), 64, 8).transpose(0, 1) for values in (x, y))
        tx, ty = (torch.sqrt(1 + it.square().sum(-1)) for it in (x, y))
        return torch.acosh((tx[:, :, None] * ty[:, None, :] - x @ y.mT).clamp(min=1 + 1e-6)).mean(0)

    records.append(
        compare(
            "pairwise_distance 1000 x 1000, product 64 x 8",
            lambda: product.pairwise_distance(a, b),
            lambda: product_distance(x, y),
            given.rounds,
            near(2e-3),
        )
    )
    few = max(given.rounds // 3, 1)
    try:
        import geoopt

        manifold = geoopt.Lorentz(k=1.0)
        full = lambda it: torch.cat([torch.sqrt(1 + it.square().sum(-1, keepdim=True)), it], -1)  # noqa: E731
        u, v = full(x)[:, None], full(y)[None]
        records.append(
            compare(
                "the same, Lorentz 512, geoopt",
                lambda: lorentz.pairwise_distance(a, b),
                lambda: manifold.dist(u, v),
                few,
                near(1e-2),
                "geoopt",
            )
        )
        s, t = (full(it.reshape(1000, 64, 8)) for it in (x, y))
        records.append(
            compare(
                "the same, product 64 x 8, geoopt",
                lambda: product.pairwise_distance(a, b),
                lambda: manifold.dist(s[:, None], t[None]).mean(-1),
                few,
                near(1e-2),
                "geoopt",
            )
        )
    except ImportError:
        print("geoopt is not installed: not compared")
    try:
        from hypll.manifolds.poincare_ball import Curvature, PoincareBall
        from hypll.tensors import ManifoldTensor

        # A point x of the hyperboloid is x / (1 + t) in the ball of curvature -1.
        ball = PoincareBall(Curvature(value=1.0, constraining_strategy=lambda c: c))
        p, q = (
            ManifoldTensor((it / (1 + torch.sqrt(1 + it.square().sum(-1, keepdim=True))))[None], ball) for it in (x, y)
        )
        records.append(
            compare(
                "the same, Lorentz 512, hypll (Poincare ball)",
                lambda: lorentz.pairwise_distance(a, b),
                torch.no_grad()(lambda: ball.cdist(p, q)[0]),
                few,
                near(1e-2),
                "hypll",
            )
        )
    except ImportError:
        print("hypll is not installed: not compared")

    views = [torch_side.filled(768, 512, scale=0.02, phase=0.3 * i).requires_grad_() for i in range(4)]
    scale, curvature = torch.tensor(14.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)

    def ours():
        points = [ct.exp0(view, product, curvature) for view in views]
        total = ct.phyclip_loss(*points, scale, curvature, factors=64, reference=True)
        return torch.autograd.grad(total, [*views, scale, curvature])[0]

    def theirs():
        total = torch_side.head_phyclip(*views, scale, curvature)
        return torch.autograd.grad(total, [*views, scale, curvature])[0]

    before = peak()
    ours()
    print(f"phyclip_loss, forward and backward: {peak() - before:.0f} MiB more than before the first call")
    # Against torch's formulas in float64, the largest errors of this gradient are 4.4e-5 (conifer) and 4.3e-5 (torch in
    # float32); its largest value is 2.0e-4. Only the gradient of the first view is compared.
    records.append(compare("phyclip_loss B = 768, 64 x 8, with exp0", ours, theirs, given.rounds, near(1e-4)))
    space, p, q = conifer.Lorentz(4), *(values[0, :4].copy() for values in (a, b))
    calls = 100_000
    taken = timed(lambda: [space.distance(p, q) for _ in range(calls)])[0] / calls
    print(f"call overhead: distance of two points of dimension 4 takes {1e6 * taken:.2f} us")
    records.append({"case": "call overhead", "seconds": taken})
    if given.out:
        with given.out.open("a") as file:
            for record in records:
                record["keep_pages"] = given.keep_pages
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
