#!/usr/bin/env python3
"""Measures the recall of other search engines on the files that `conifer export` writes.

    python bench/engines.py --conifer target/release/conifer          the table of docs/search.md, "What was tried"

Needs numpy, lancedb, pyarrow, qdrant-client and qdrant-edge-py (install them with pip). The script generates two sets
of points, exports them and imports them into both engines:

* LanceDB with the `import.py` next to the Parquet file;
* Qdrant with the requests that `upload.sh` sends. The models of Qdrant's own client parse and validate each request.
  The requests are then applied to Qdrant Edge, the engine of the server running in this process. HTTP is not used.

Each line of the table is a way to search. It reports how many of the ten nearest rows by hyperbolic distance (double
precision, all rows) are among the engine's first ten, and among the ten best of its first hundred after reranking as
described in docs/search.md.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import lancedb
import numpy as np
import qdrant_edge as edge
from lancedb.index import HnswSq
from qdrant_client.http import models

ROWS, QUERIES, K, CANDIDATES = 20_000, 50, 10, 100
# Points with random directions, at depths from `near` to `far` in every factor.
SETS = {
    "hyperboloid": {"kind": "lorentz", "dim": 16, "curv": [0.5], "factors": 1, "near": 0.2, "far": 3.0},
    "product": {"kind": "product_l1", "dim": 32, "curv": [0.5, 1.0, 1.0, 2.0], "factors": 4, "near": 0.1, "far": 1.5},
}


def points(of, count, random):
    """Space components, [count, dim]."""
    width = of["dim"] // of["factors"]
    parts = []
    for curv in of["curv"]:
        way = random.normal(size=(count, width))
        depth = random.uniform(of["near"], of["far"], size=(count, 1))
        parts.append(np.sinh(np.sqrt(curv) * depth) / np.sqrt(curv) * way / np.linalg.norm(way, axis=1, keepdims=True))
    return np.concatenate(parts, axis=1)


def save(folder, of, rows):
    """Writes an embedding set in the format that the docs of `EmbeddingSet` describe."""
    folder.mkdir()
    data = rows.astype("<f4").tobytes()
    head = json.dumps({"points": {"dtype": "F32", "shape": list(rows.shape), "data_offsets": [0, len(data)]}}).encode()
    head += b" " * (-len(head) % 8)
    (folder / "points.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    with open(folder / "rows.jsonl", "w") as out:
        out.writelines(json.dumps({"id": f"row {i}", "modality": "image", "label": f"class {i % 7}"}) + "\n" for i in range(len(rows)))
    spec = {name: of[name] for name in ("kind", "dim", "factors", "curv")}
    manifest = {"format": "conifer embedding set", "version": 1, "rows": len(rows), "columns": ["label"], "spec": spec, "root": "origin",
                "source": {"model": "made by bench/engines.py", "data": "", "hash": "", "conifer": "", "weights": ""}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def factors(of, before=0):
    """The curvature of every factor and the slice of its coordinates, each preceded by `before` extra coordinates."""
    width = of["dim"] // of["factors"]
    for i, curv in enumerate(of["curv"]):
        at = i * (width + before) + before
        yield curv, slice(at, at + width)


def distances(of, rows, query):
    """The hyperbolic distance of every row to the query, summed over the factors, in double precision."""
    total = 0.0
    for curv, at in factors(of):
        v, q = (np.sqrt(curv) * it[..., at].astype("f8") for it in (rows, query))
        time = ((v**2).sum(1) - q @ q) / (np.sqrt(1 + (v**2).sum(1)) + np.sqrt(1 + q @ q))
        total += 2 * np.arcsinh(np.sqrt(np.maximum(((v - q) ** 2).sum(1) - time**2, 0)) / 2) / np.sqrt(curv)
    return total


def asked(of, query):
    """The vector to send as the query, in the layout of the exported vectors."""
    out = []
    for curv, at in factors(of):
        q = query[at].astype("f8")
        out += [-np.sqrt(1 + curv * q @ q), *(np.sqrt(curv) * q)]
    return [*map(float, out), 0.0]


def read_back(of, vectors):
    """Recovers the points from exported vectors, in which the time coordinate precedes each factor."""
    return np.concatenate([vectors[:, at] / np.sqrt(curv) for curv, at in factors(of, before=1)], axis=1)


def qdrant(folder):
    """Yields ways to search: a name and a function of (vector, count) that returns the nearest rows and their vectors."""
    made = models.CreateCollection.model_validate_json((folder / "collection.json").read_text())
    vectors = made.vectors
    index = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10)
    params = edge.EdgeVectorParams(size=vectors.size, distance=getattr(edge.Distance, vectors.distance.value), hnsw_config=index)
    shard = edge.EdgeShard.create(str(folder / "shard"), edge.EdgeConfig(vectors={"": params}, optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1)))
    first = None
    with open(folder / "points.jsonl") as lines:
        for line in lines:
            request = models.PointsList.model_validate_json(line)
            shard.update(edge.UpdateOperation.upsert_points([edge.Point(it.id, it.vector, it.payload) for it in request.points]))
            first = first or request.points[0]
    shard.optimize()
    info = shard.info()
    print(f"  Qdrant Edge: {info.points_count} points, {info.indexed_vectors_count} in its graph; payload of the first: {json.dumps(first.payload)}")

    def search(exact):
        def run(vector, count):
            wanted = edge.QueryRequest(limit=count, query=edge.Query.Nearest(vector), with_vector=True, params=edge.SearchParams(exact=exact))
            found = shard.query(wanted)
            return [it.id for it in found], np.array([it.vector for it in found])
        return run

    label = edge.Filter(must=[edge.FieldCondition(key="columns.label", match=edge.MatchValue(value="class 3"))])
    kept = shard.query(edge.QueryRequest(limit=5, query=edge.Query.Nearest(first.vector), filter=label, params=edge.SearchParams(exact=True)))
    assert len(kept) == 5 and all(it.id % 7 == 3 for it in kept), "a filter on a column"
    yield "Qdrant, exact", search(True)
    yield "Qdrant, HNSW", search(False)


def lance(folder):
    subprocess.run([sys.executable, "import.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    table = lancedb.connect(folder / "lancedb").open_table("conifer")

    def run(vector, count):
        found = table.search(np.array(vector, dtype="f4")).distance_type("l2").limit(count).to_arrow()
        return found["row"].to_pylist(), np.array(found["vector"].to_pylist())

    yield "LanceDB, scan", run
    table.create_index("vector", config=HnswSq(distance_type="l2"))
    yield "LanceDB, IVF_HNSW_SQ", run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conifer", default="target/release/conifer", type=lambda it: str(pathlib.Path(it).resolve()))
    program = parser.parse_args().conifer
    lines = ["| points | engine | first ten | ten of a hundred, ranked anew |", "|---|---|---|---|"]
    for name, of in SETS.items():
        random = np.random.default_rng(7)
        rows, queries = (points(of, count, random).astype("f4") for count in (ROWS, QUERIES))
        nearest = [set(np.argsort(distances(of, rows, query), kind="stable")[:K]) for query in queries]
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            save(folder / "set", of, rows)
            for engine in ("qdrant", "lancedb"):
                subprocess.run([program, "export", "set", "--to", engine, "--out", engine], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            for way, search in itertools.chain(qdrant(folder / "qdrant"), lance(folder / "lancedb")):
                found, anew = 0, 0
                for query, truth in zip(queries, nearest):
                    ids, vectors = search(asked(of, query), CANDIDATES)
                    best = np.argsort(distances(of, read_back(of, vectors), query), kind="stable")[:K]
                    found += len(truth & set(ids[:K]))
                    anew += len(truth & {ids[i] for i in best})
                assert of["factors"] > 1 or found >= 0.99 * K * QUERIES or not way.endswith(("exact", "scan")), f"{way}: {found}"
                lines.append(f"| {name} | {way} | {found / QUERIES:.1f} | {anew / QUERIES:.1f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
