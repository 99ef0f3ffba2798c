#!/usr/bin/env python3
"""Train a small model on drawings, search with it and draw the space. Takes a minute on two cores.

    python python/examples/quickstart.py [FOLDER]      default: runs/python_quickstart
"""

import sys
from pathlib import Path

import conifer
from conifer import viz

CONFIG = {
    "data": {"kind": "toy", "options": {"size": 400, "resolution": 64}},
    "tokenizer": {"kind": "train", "vocab_size": 600},
    "model": {
        "embed_dim": 32,
        "visual": {"preset": "vit_nano"},
        "textual": {"preset": "text_nano", "depth": 2},
    },
    "manifold": {"factors": 4},
    "method": {"kind": "phyclip"},
    "train": {"batch_size": 16, "steps": 40},
    "optim": {"warmup_steps": 8},
}


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/python_quickstart")
    losses = []
    run = conifer.train(CONFIG, out=folder / "run", callbacks=lambda event: losses.append(event.get("loss")))
    print(f"{run.step} steps, loss {run.loss:.3f}")

    model = run.load()
    texts = model.embed_texts(["an animal", "a dog", "a red dog on a beach", "a vehicle", "a blue bus on a street"])
    index = conifer.Index(texts)
    print(index.search(model.encode_text("a red dog on a meadow"), k=3))
    print(index.traverse(texts.points[2]))
    try:
        figure = viz.plot_disc(texts, color="depth", labels=5)
    except ImportError:
        print("no figure: matplotlib is not installed")
        return
    figure.savefig(folder / "disc.png")
    print(folder / "disc.png")


if __name__ == "__main__":
    main()
