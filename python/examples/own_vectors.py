# %% [markdown]
# # Your own vectors
# Train a hyperbolic head on vectors that another program computed: CLIP, SigLIP, DINO, a text embedder. No encoder runs.

# %%
import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import conifer
from conifer import viz

folder = Path(os.environ.get("CONIFER_EXAMPLES", "runs/python_examples"))
data = folder / "own_vectors_data"
data.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# These vectors are simulated, along the tree of classes of the toy world: the vector of a name is that of its parent plus
# a random step, and a photo is the vector of its class plus noise. Replace `texts` and `photos` by your own.

# %%
subprocess.run([sys.executable, "-m", "conifer", "data", "toy", "--out", str(data / "toy"), "--size", "2"], check=True)
pairs = [line.split("\t") for line in (data / "toy/tree.txt").read_text().splitlines()]
parent = {child: name for name, child in pairs}
random = np.random.default_rng(0)
names = ["thing", *parent]
vector = {"thing": np.zeros(64)}
for child, name in parent.items():
    vector[child] = vector[name] + random.normal(size=64)
texts = np.stack([vector[name] for name in names])

classes = [name for name in names if name not in parent.values()]
photo_class = [name for name in classes for _ in range(20)]
photos = np.stack([vector[name] for name in photo_class]) + random.normal(size=(len(photo_class), 64))


def path(name):
    """The names from the root of the tree to a class."""
    found = [name]
    while found[0] in parent:
        found.insert(0, parent[found[0]])
    return found


# %% [markdown]
# Two files of vectors, and a table of what belongs together: every photo has the names of its class and of all ancestors.

# %%
np.save(data / "photos.npy", photos.astype("<f4"))
np.save(data / "texts.npy", texts.astype("<f4"))
(data / "names.txt").write_text("".join(f"{name}\n" for name in names))
row = {name: i for i, name in enumerate(names)}
lines = [f"{i},{';'.join(str(row[it]) for it in path(name))}\n" for i, name in enumerate(photo_class)]
(data / "vectors.csv").write_text("image,text\n" + "".join(lines))

# %%
shutil.rmtree(folder / "own_vectors", ignore_errors=True)
run = conifer.train(
    {
        "data": {
            "kind": "features",
            "path": str((data / "vectors.csv").absolute()),
            "options": {"images": "photos.npy", "texts": "texts.npy", "captions": "names.txt"},
        },
        "model": {
            "embed_dim": 32,
            "visual_adapter": {"input": "standardise", "widths": [128]},
            "textual_adapter": {"input": "standardise", "widths": [128]},
        },
        "method": {"kind": "meru"},
        "train": {"batch_size": 128, "steps": 300},
        "optim": {"lr": 2e-3, "warmup_steps": 20},
    },
    out=folder / "own_vectors",
)
print(f"{run.step} steps, loss {run.loss:.3f}")

# %% [markdown]
# The command `conifer embed` embeds the same files. Names that belong to many photos are near the root.

# %%
files = [f"{key}={value}" for key, value in (("images", "photos.npy"), ("texts", "texts.npy"), ("captions", "names.txt"))]
options = [word for file in files for word in ("--data-option", file)]
source = f"features:{(data / 'vectors.csv').absolute()}"
command = [sys.executable, "-m", "conifer", "embed", run.out, "--data", source, *options]
subprocess.run([*command, "--views", "image,text", "--out", str(data / "set")], check=True)
rows = conifer.EmbeddingSet.open(data / "set")
texts_only = rows[np.array(rows.modality) == "text"]
names_found = texts_only.columns.get("text", texts_only.ids)
depth_of = dict(zip(names_found, texts_only.depth()))
steps = [(len(path(name)) - 1, depth_of[name]) for name in names if name in depth_of]
for step in range(5):
    found = [depth for at, depth in steps if at == step]
    if found:
        print(f"{len(found):3} names {step} steps below the root of the tree: mean depth {np.mean(found):.3f}")

# %%
index = conifer.Index(rows)
query = texts_only.points[names_found.index("bird")]
near = index.search(query, k=10, by="distance", modality="text")
print("near to `bird`:", [names_found_of for names_found_of in near.to_pandas()["id"]])

# %%
figure, axes = plt.subplots(1, 2, figsize=(14, 6))
viz.plot_disc(rows, color="modality", ax=axes[0])
viz.depth_histogram(rows, ax=axes[1])
figure.savefig(folder / "own_vectors.png", dpi=100, bbox_inches="tight")
