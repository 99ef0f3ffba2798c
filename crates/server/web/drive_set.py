"""Writes a made-up embedding set of any size, to try the explorer's map with many points.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python crates/server/web/drive_set.py 1000000 set-1m
    conifer serve set-1m
    venv/bin/python crates/server/web/drive.py http://127.0.0.1:7878 --only layers

The rows are leaves and inner nodes of a tree of 4 levels with 8 children each, on a hyperboloid of 8 dimensions with c = 1.
A row is at a distance from the root that grows with its level, in the direction of its class and with some noise. Nine of
ten rows are photos of a leaf, the others are texts with the name of a class. The columns are `text`, `label`, `taxon` (the
path of names) and `size` (a random number). The folder `SET/maps/plane` has a made-up map of all rows in a plane, in the format of
`conifer project`; the folder `SET/maps/part` has every third row in the disc. The same numbers give the same bytes.
"""

import json
import pathlib
import sys

import numpy as np

CHILDREN, LEVELS, DIM = 8, 4, 8
SYLLABLES = "ba ce di fo gu ha ke li mo nu pa re si to vu za".split()


def name(path):
    """A name for a class, unique for its path: two syllables per level, the last level first."""
    word = "".join(SYLLABLES[child] + SYLLABLES[8 + (child + level) % 8] for level, child in list(enumerate(path))[::-1])
    return word[: 4 + 2 * len(path)] + ("" if len(path) < 3 else SYLLABLES[sum(path) % 16])


def main():
    count, out = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    random = np.random.default_rng(count)
    paths = [()]
    for _ in range(LEVELS):
        paths += [it + (child,) for it in paths if len(it) == len(paths[-1]) for child in range(CHILDREN)]
    paths = paths[1:]
    at = {path: i for i, path in enumerate(paths)}
    names, taken = [], set()
    for path in paths:
        word = name(path)
        while word in taken:
            word += "x"
        taken.add(word)
        names.append(word)
    directions = np.zeros((len(paths), DIM))
    for i, path in enumerate(paths):
        own = random.normal(size=DIM) * 0.62 ** (len(path) - 1)
        directions[i] = own + (directions[at[path[:-1]]] if len(path) > 1 else 0)
    level = np.array([len(path) for path in paths])
    leaves, inner = np.flatnonzero(level == LEVELS), np.flatnonzero(level < LEVELS)
    photo = random.random(count) < 0.9
    node = np.where(photo, random.choice(leaves, count), random.choice(inner, count))
    direction = directions[node] + random.normal(size=(count, DIM)) * np.where(photo, 0.18, 0.05)[:, None]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    depth = 0.55 * level[node] + random.normal(size=count) * 0.12 + 0.2
    points = (direction * np.sinh(depth)[:, None]).astype("<f4")
    size = random.random(count)

    out.mkdir(parents=True)
    head = json.dumps({"points": {"dtype": "F32", "shape": points.shape, "data_offsets": [0, points.nbytes]}}).encode()
    (out / "points.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + points.tobytes())
    taxa = [" > ".join(names[at[path[: k + 1]]] for k in range(len(path))) for path in paths]
    with open(out / "rows.jsonl", "w") as file:
        for i, (n, is_photo) in enumerate(zip(node, photo)):
            text = f"photo {i} of {names[n]}" if is_photo else names[n]
            file.write(f'{{"id":"r{i}","modality":"{"image" if is_photo else "text"}","text":"{text}","label":"{names[n]}","taxon":"{taxa[n]}","size":"{size[i]:.3f}"}}\n')
    (out / "manifest.json").write_text(json.dumps({"format": "conifer embedding set", "version": 1, "rows": count,
        "columns": ["text", "label", "taxon", "size"], "spec": {"kind": "lorentz", "dim": DIM, "factors": 1, "curv": [1.0]}, "root": "origin",
        "source": {"model": "made up", "data": "drive_set.py", "hash": "", "conifer": ""}}))

    plane = directions[node][:, :2] * 10 + random.normal(size=(count, 2)) * 2
    write_map(out / "maps" / "plane", range(count), plane, {"by": "umap", "target": "plane", "disc": False, "root": None})
    third = np.arange(0, count, 3)
    disc = direction[third][:, :2] / np.linalg.norm(direction[third][:, :2], axis=1, keepdims=True) * np.tanh(depth[third] / 2)[:, None]
    write_map(out / "maps" / "part", third, disc, {"by": "horopca", "disc": True, "root": [0.0, 0.0]})


def write_map(folder, rows, positions, report):
    folder.mkdir(parents=True)
    with open(folder / "points.csv", "w") as file:
        file.write("row,id,x0,x1\n")
        file.writelines(f"{row},r{row},{x:.6f},{y:.6f}\n" for row, (x, y) in zip(rows, positions))
    (folder / "projection.json").write_text(json.dumps({"format": "conifer projection", "rows": len(rows), **report}))


main()
