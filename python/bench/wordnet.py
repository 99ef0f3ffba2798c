#!/usr/bin/env python3
"""Recall of LanceDB and Qdrant Edge on the 82,115 nouns of WordNet 3.0, embedded by the method `poincare`.

    python/bench/wordnet.py [--wordnet /usr/share/wordnet] [--set FOLDER] [--queries 500] [--out results.jsonl]

Needs the folder of Debian's package wordnet-base, and torch, lancedb, pyarrow and qdrant-edge-py. Every noun is a free
point, as in Nickel and Kiela (NeurIPS 2017): a tangent vector at the origin, trained by Adam with the loss of `poincare`
on pairs of an ancestor and a descendant and random nouns as wrong ones. `--set` keeps the points: an existing folder is
read instead of training again.

Each line is a way to store the points, an engine and the number of candidates that are ranked again by the exact
distance; "alone" is the engine's own order. Recall is the share of the ten nearest rows of `conifer.Index` that were
found, over random nouns as queries; a noun is the nearest row of its own point.

* dot: the time and space components, searched by the largest dot product with the query (-t, x). This is the largest
  Minkowski product, so an exact scan finds the nearest rows.
* augmented: the vectors of `conifer.export`, whose Euclidean order is that of the distance.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import conifer

K = 10
CANDIDATES = (None, 100, 1000)


def read_nouns(folder):
    """Names of the synsets, and the rows of the hypernyms of each, instances included."""
    rows, names, above = {}, [], []
    for line in (folder / "data.noun").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        words = line.partition(" | ")[0].split()
        count = int(words[3], 16)
        pointers = words[4 + 2 * count :]
        rows[words[0]] = len(names)
        names.append(f"{words[4]}.{words[0]}")
        found = zip(*(pointers[1 + i : 1 + 4 * int(pointers[0]) : 4] for i in range(3)))
        above.append([at for kind, at, part in found if kind in ("@", "@i") and part == "n"])
    return names, [[rows[at] for at in all_] for all_ in above]


def ancestors(above):
    """The rows of all ancestors of each noun."""
    known = {}

    def of(row):
        if row not in known:
            found = set(above[row])
            for parent in above[row]:
                found |= of(parent)
            known[row] = found
        return known[row]

    return [of(row) for row in range(len(above))]


def train(above, all_above, arguments):
    """Points (N, dim), and the losses of the steps."""
    import torch

    import conifer.torch as ct

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    space = conifer.Lorentz(arguments.dim)
    tangents = torch.nn.Parameter(0.01 * torch.randn(len(above), arguments.dim))
    optimizer = torch.optim.Adam([tangents], lr=arguments.lr)
    direct = np.array([(parent, row) for row, all_ in enumerate(above) for parent in all_])
    closure = np.array([(parent, row) for row, all_ in enumerate(all_above) for parent in all_])
    print(f"{len(above)} nouns, {len(direct)} pairs of parent and child, {len(closure)} of ancestor and descendant")
    half = arguments.batch // 2
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * (1 - step / arguments.steps)
        pairs = np.concatenate([random.choice(direct, half), random.choice(closure, half)])
        pairs = torch.from_numpy(np.repeat(pairs, arguments.negatives, axis=0))
        wrong = torch.from_numpy(random.integers(0, len(above), pairs.shape))
        parent, child, wrong_parent, wrong_child = (
            ct.exp0(tangents[rows], space) for rows in (pairs[:, 0], pairs[:, 1], wrong[:, 0], wrong[:, 1])
        )
        views = {"chain": [parent, child], "wrong_chain": [wrong_parent, wrong_child]}
        loss = ct.loss("poincare", space, views, arguments.scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0 or step + 1 == arguments.steps:
            print(f"step {step}: loss {float(loss.detach()):.4f}", flush=True)
    return space, space.exp0(tangents.detach().numpy())


def quality(rows, all_above, sample):
    """Mean average precision of the ancestors of some nouns by distance, and the mean rank of an ancestor among the
    nouns that are no ancestors."""
    precisions, ranks = [], []
    for row in sample:
        right = np.array(sorted(all_above[row]))
        if len(right) == 0:
            continue
        distance = rows.space.distance(rows.points, rows.points[row])
        distance[row] = np.inf
        others = np.sort(np.delete(distance, np.append(right, row)))
        before = np.searchsorted(others, np.sort(distance[right]))
        ranks += (before + 1).tolist()
        place = np.arange(1, len(right) + 1)
        precisions.append(np.mean(place / (place + before)))
    return float(np.mean(precisions)), float(np.mean(ranks))


class DotLance(conifer.export.LanceIndex):
    """Time and space components in LanceDB, by dot product."""

    def __init__(self, rows, uri):
        import lancedb
        import pyarrow
        from lancedb.index import HnswSq

        vectors = np.ascontiguousarray(conifer._conifer.row_vectors(rows._inner)[:, :-1])
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
        table = pyarrow.table({"row": np.arange(len(rows)), "vector": lists})
        made = lancedb.connect(str(uri)).create_table("dot", table)
        made.create_index("vector", config=HnswSq(distance_type="dot"))
        super().__init__(rows, made)

    def candidates(self, vector, count):
        found = self.table.search(vector[:-1]).distance_type("dot").limit(count).select(["row", "_distance"]).to_arrow()
        return found["row"].to_pylist()


class DotEdge(conifer.export.QdrantEdgeIndex):
    """Time and space components in Qdrant Edge, by dot product."""

    def __init__(self, rows, folder, exact=False):
        import qdrant_edge as edge

        vectors = conifer._conifer.row_vectors(rows._inner)[:, :-1]
        folder.mkdir()
        params = edge.EdgeVectorParams(size=vectors.shape[1], distance=edge.Distance.Dot)
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors={"": params}))
        for start in range(0, len(rows), 1000):
            part = range(start, min(start + 1000, len(rows)))
            points = [edge.Point(i, vectors[i].tolist(), {}) for i in part]
            shard.update(edge.UpdateOperation.upsert_points(points))
        shard.optimize()
        super().__init__(rows, shard, exact)

    def candidates(self, vector, count):
        return super().candidates(vector[:-1], count)


def recall(index, queries, nearest, candidates):
    """Share of the ten nearest rows, and seconds per query."""
    start = time.perf_counter()
    if candidates is None:
        vectors = conifer._conifer.query_vectors(index.rows.space, queries)
        found = [index.candidates(vector, K) for vector in vectors]
    else:
        found = index.search(queries, k=K, candidates=candidates).rows.tolist()
    taken = (time.perf_counter() - start) / len(queries)
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found, nearest)])), taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--set", type=Path)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=2048, help="pairs per step")
    parser.add_argument("--negatives", type=int, default=4, help="wrong nouns per pair and direction")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--scale", type=float, default=3.0, help="1 / temperature")
    arguments = parser.parse_args()
    if not (arguments.wordnet / "data.noun").exists():
        raise SystemExit(f"{arguments.wordnet}/data.noun does not exist; expected the folder of Debian's wordnet-base")
    names, above = read_nouns(arguments.wordnet)
    all_above = ancestors(above)
    start = time.perf_counter()
    if arguments.set and arguments.set.exists():
        rows = conifer.EmbeddingSet.open(arguments.set)
    else:
        space, points = train(above, all_above, arguments)
        rows = conifer.EmbeddingSet(points, space, names, "text")
        if arguments.set:
            rows.save(arguments.set)
    trained = time.perf_counter() - start
    random = np.random.default_rng(1)
    precision, rank = quality(rows, all_above, random.choice(len(rows), 500, replace=False))
    depth = rows.depth()
    print(f"points after {trained:.0f} s; on 500 nouns: MAP {precision:.3f}, mean rank of an ancestor {rank:.0f}")
    print(f"depth: entity {depth[0]:.2f}, median {np.median(depth):.2f}, largest {depth.max():.2f}")
    chosen = random.choice(len(rows), arguments.queries, replace=False)
    queries = np.ascontiguousarray(rows.points[chosen])
    start = time.perf_counter()
    nearest = conifer.Index(rows).search(queries, k=K).rows.tolist()
    exact_ms = 1e3 * (time.perf_counter() - start) / len(queries)
    wide, some = rows.points.astype(np.float64), queries[:50].astype(np.float64)
    check = np.argsort(rows.space.pairwise_distance(some, wide), axis=1, kind="stable")[:, :K].tolist()
    same = np.mean([len(set(a) & set(b)) / K for a, b in zip(check, nearest)])
    print(f"conifer.Index: {exact_ms:.2f} ms per query, index included; recall of float64 on 50 queries: {same:.3f}")
    record = {"case": "wordnet", "nouns": len(rows), "map": precision, "mean_rank": rank, "trained_seconds": trained}
    records = [record | {"exact_ms": exact_ms, "float64_agreement": float(same), "largest_depth": float(depth.max())}]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ways = [
            ("dot, LanceDB IVF_HNSW_SQ", lambda: DotLance(rows, place / "a")),
            ("dot, Qdrant Edge HNSW", lambda: DotEdge(rows, place / "b")),
            ("dot, Qdrant Edge exact scan", lambda: DotEdge(rows, place / "c", exact=True)),
            ("augmented, LanceDB IVF_HNSW_SQ", lambda: conifer.export.to_lancedb(rows, place / "d")),
            ("augmented, LanceDB scan", lambda: conifer.export.to_lancedb(rows, place / "e", approximate=False)),
            ("augmented, Qdrant Edge HNSW", lambda: conifer.export.to_qdrant(rows, place / "f")),
            ("augmented, Qdrant Edge exact scan", lambda: conifer.export.to_qdrant(rows, place / "g", exact=True)),
        ]
        print(f"{'recall@10, ms per query':36} {'alone':>15} {'of 100':>15} {'of 1,000':>15}")
        for name, make in ways:
            index = make()
            cells = []
            for candidates in CANDIDATES:
                share, taken = recall(index, queries, nearest, candidates)
                cells.append(f"{share:.3f} {1e3 * taken:6.1f} ms")
                records.append({"case": name, "candidates": candidates, "recall": share, "seconds": taken})
            graph = getattr(getattr(index, "shard", None), "info", None)
            note = f"  {graph().indexed_vectors_count} vectors in the graph" if graph else ""
            print(f"{name:36} " + " ".join(f"{cell:>15}" for cell in cells) + note, flush=True)
    if arguments.out:
        settings = {name: value for name, value in vars(arguments).items() if not isinstance(value, Path)}
        with arguments.out.open("a") as file:
            for record in records:
                file.write(json.dumps({**record, "settings": settings, "load": os.getloadavg()[0]}) + "\n")


if __name__ == "__main__":
    main()
