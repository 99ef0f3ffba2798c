# %% [markdown]
# # Search and explore
# Embed a folder of drawings, search it by distance and by cone, and follow paths. Uses the model of
# `quickstart.py`, which has hardly been trained: expect photos of any class. `conifer.load` opens a better one.

# %%
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import conifer
from conifer import viz

folder = Path(os.environ.get("CONIFER_EXAMPLES", "runs/python_examples"))
if not (folder / "quickstart").exists():
    sys.exit(f"{folder / 'quickstart'} does not exist; run quickstart.py first")
model = conifer.load(folder / "quickstart")

# %% [markdown]
# The drawings are in one folder per class. Any folder of photos works.

# %%
toy = folder / "drawings"
subprocess.run([sys.executable, "-m", "conifer", "data", "toy", "--out", str(toy), "--size", "200"], check=True)
files = sorted((toy / "classes").glob("*/000[0-4].png"))
photos = model.embed_images(files, label=[file.parent.name for file in files])
texts = model.embed_texts(["an animal", "a bird", "a dog", "a vehicle", "a bus", "food", "a fruit", "a plant", "a flower"])
rows = conifer.EmbeddingSet.concat([photos, texts])
print(rows)

# %% [markdown]
# `where`, `modality` and `depth` are conditions on the rows. `narrower` orders rows by the angle at the query, so it finds
# what lies in the direction away from the root.

# %%
index = conifer.Index(rows)
query = model.encode_text("a bird")
for by in ("distance", "narrower"):
    found = index.search(query, k=6, by=by, modality="image")
    print(f"a bird, by {by}: {found.columns()['column_label']}")
print(index.search(query, k=3, modality="image", where={"label": ["bus", "train", "car"]}).to_pandas())

# %% [markdown]
# A traversal goes from a photo to the root, or from one photo to another.

# %%
print(index.traverse(photos.points[0]))
print(index.traverse(photos.points[0], photos.points[-1]))

# %%
queries = ["a bird", "a bus", "a flower"]
found = index.search(model.encode_text(queries), k=5, modality="image")
figure, axes = plt.subplots(len(queries), 5, figsize=(10, 6))
for query, name, ids, scores in zip(range(len(queries)), queries, found.ids, found.scores):
    for axis, file, score in zip(axes[query], ids, scores):
        axis.imshow(plt.imread(file))
        axis.set_title(f"{name}: {score:.2f}", fontsize="small")
        axis.set_axis_off()
figure.savefig(folder / "search.png", dpi=100, bbox_inches="tight")
viz.plot_disc(rows, color="modality").savefig(folder / "disc.png", dpi=100, bbox_inches="tight")
