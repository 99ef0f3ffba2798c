# %% [markdown]
# # Quickstart
# Train a small model on drawings, search with it and draw its space. The 80 steps show how things work; they do not
# teach the model what a bird is. More `steps` do (docs/guide.md).

# %%
import os
import shutil
from pathlib import Path

import matplotlib.pyplot as plt

import conifer
from conifer import viz

folder = Path(os.environ.get("CONIFER_EXAMPLES", "runs/python_examples"))

# %% [markdown]
# A config is a dict with the tables of a config file. A callback sees every step.

# %%
config = {
    "data": {"kind": "toy", "options": {"size": 400, "resolution": 64}},
    "tokenizer": {"kind": "train", "vocab_size": 600},
    "model": {
        "embed_dim": 32,
        "visual": {"preset": "vit_nano"},
        "textual": {"preset": "text_nano", "depth": 2},
    },
    "method": {"kind": "hycoclip"},
    "train": {"batch_size": 16, "steps": 80},
    "optim": {"warmup_steps": 8},
}
losses = []
shutil.rmtree(folder / "quickstart", ignore_errors=True)
run = conifer.train(config, out=folder / "quickstart", callbacks=lambda event: losses.append(event.get("loss")))
print(f"{run.step} steps, loss {run.loss:.3f}")

# %% [markdown]
# The model embeds texts and photos as points of its space. In a trained model, general texts are near the root.

# %%
model = run.load()
texts = ["an animal", "a bird", "a dog", "a red dog", "a red dog on a beach"]
texts += ["a vehicle", "a bus", "a blue bus", "a blue bus on a street"]
rows = model.embed_texts(texts)
print(rows.to_pandas())

# %% [markdown]
# Search by distance, or for rows that are narrower than the query. A traversal leads from a row to the root.

# %%
index = conifer.Index(rows)
print(index.search(model.encode_text("a red dog on a meadow"), k=3).ids)
print(index.search(model.encode_text("a dog"), k=3, by="narrower").ids)
print(index.traverse(rows.points[4]))

# %%
figure, axes = plt.subplots(1, 2, figsize=(13, 6))
axes[0].plot([loss for loss in losses if loss is not None])
axes[0].set(xlabel="step", ylabel="loss")
viz.plot_disc(rows, color="depth", labels=len(rows), ax=axes[1])
figure.savefig(folder / "quickstart.png", dpi=100, bbox_inches="tight")
