# %% [markdown]
# # A torch loop with the losses of conifer
# Train two small torch towers on drawings with HyCoCLIP's loss: photos, captions, and boxes with their phrases. Any towers
# fit that return one vector per input, such as those of open_clip or transformers.

# %%
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import conifer
import conifer.torch as ct
from conifer import viz

folder = Path(os.environ.get("CONIFER_EXAMPLES", "runs/python_examples"))
toy = folder / "scenes"
subprocess.run([sys.executable, "-m", "conifer", "data", "toy", "--out", str(toy), "--size", "400"], check=True)
scenes = [json.loads(line) for line in (toy / "scenes.jsonl").read_text().splitlines()]

# %% [markdown]
# Each sample has a drawing, a caption, the part of the drawing in a box, and the phrase for this box.


# %%
def resized(picture, side=32):
    """An array (height, width, 3) as a tensor (3, side, side)."""
    pixels = torch.from_numpy(np.ascontiguousarray(picture[..., :3])).permute(2, 0, 1).float()
    return torch.nn.functional.interpolate(pixels[None], (side, side), mode="bilinear", antialias=True)[0] - 0.5


photos, boxes, captions, phrases = [], [], [], []
for scene in scenes:
    picture = plt.imread(toy / scene["image"])
    height, width = picture.shape[:2]
    phrase = scene["phrases"][0]
    left, top, right, bottom = phrase["boxes"][0]
    box = picture[int(top * height) : int(bottom * height) + 1, int(left * width) : int(right * width) + 1]
    photos.append(resized(picture))
    boxes.append(resized(box))
    captions.append(scene["captions"][0])
    phrases.append(phrase["text"])
photos, boxes = torch.stack(photos), torch.stack(boxes)
vocabulary = {word: i for i, word in enumerate(sorted({word for text in captions + phrases for word in text.split()}))}


def counted(texts):
    """Word counts (N, words)."""
    found = torch.zeros(len(texts), len(vocabulary))
    for i, text in enumerate(texts):
        for word in text.split():
            found[i, vocabulary[word]] += 1
    return found


captions_in, phrases_in = counted(captions), counted(phrases)

# %% [markdown]
# The towers return tangent vectors. `exp0` lifts them to the hyperboloid, with a learned curvature.

# %%
torch.manual_seed(0)
DIM = 32
visual = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 4, 4),
    torch.nn.GELU(),
    torch.nn.Conv2d(32, 64, 2, 2),
    torch.nn.GELU(),
    torch.nn.Flatten(),
    torch.nn.Linear(64 * 16, DIM),
)
textual = torch.nn.Sequential(torch.nn.Linear(len(vocabulary), 128), torch.nn.GELU(), torch.nn.Linear(128, DIM))
log_curvature, log_scale = (torch.nn.Parameter(torch.tensor(value)) for value in (0.0, 2.7))
parameters = [*visual.parameters(), *textual.parameters(), log_curvature, log_scale]
optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.05)
space = conifer.Lorentz(DIM)


def points(tower, inputs, curvature):
    return ct.exp0(tower(inputs) / DIM**0.5, space, curvature)


losses = []
for step in range(200):
    rows = torch.randperm(len(photos))[:64]
    curvature = log_curvature.exp().clamp(0.1, 10)
    loss = ct.hycoclip_loss(
        points(visual, photos[rows], curvature),
        points(textual, captions_in[rows], curvature),
        points(visual, boxes[rows], curvature),
        points(textual, phrases_in[rows], curvature),
        log_scale.exp().clamp(max=100),
        curvature,
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 50 == 0 or step == 199:
        print(f"step {step}: loss {losses[-1]:.3f}")

# %% [markdown]
# The points of the trained towers are an embedding set. Phrases are nearer to the root than captions and photos.

# %%
curvature = log_curvature.exp().clamp(0.1, 10).item()
learned = conifer.Lorentz(DIM, curvature)
sets = []
with torch.no_grad():
    for modality, tower, inputs, ids in (
        ("image", visual, photos, captions),
        ("text", textual, captions_in, captions),
        ("box_image", visual, boxes, phrases),
        ("box_text", textual, phrases_in, phrases),
    ):
        embedded = points(tower, inputs, curvature)
        sets.append(conifer.EmbeddingSet(embedded, learned, ids, modality))
rows = conifer.EmbeddingSet.concat(sets)
found = conifer.Index(sets[0]).search(sets[1].points, k=5).rows
own = np.arange(len(found))[:, None]
print(f"captions whose own photo is among the nearest five: {(found == own).any(1).mean():.2f} of {len(found)}, all seen")
for modality, depth in zip(("photos", "captions", "boxes", "phrases"), (it.depth().mean() for it in sets)):
    print(f"mean depth of {modality}: {depth:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(13, 5))
axes[0].plot(losses)
axes[0].set(xlabel="step", ylabel="loss")
viz.depth_histogram(rows, ax=axes[1])
figure.savefig(folder / "torch_loop.png", dpi=100, bbox_inches="tight")
