"""The evaluation loop of the MERU family, with `encode_image` and `encode_text` of conifer in place of the released model.

The released model's outputs are those recorded beside its tiny checkpoints, which are not part of the repository.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
from conftest import REPOSITORY

import conifer

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.numpy").load_file
GOLDENS = Path(os.environ.get("CONIFER_GOLDENS", REPOSITORY.parent / "shared/goldens")) / "checkpoints"
END_OF_TEXT = 599

pytestmark = pytest.mark.skipif(not GOLDENS.exists(), reason="the tiny released checkpoints are not there")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Merges for the vocabulary of 600 of these checkpoints: 512 bytes, 86 merges, start, end. No test reads texts."""
    pairs = [f"{a} {b}" for a in "abcd" for b in "abcdefghijklmnopqrstuv"][:86]
    path = tmp_path_factory.mktemp("tokenizer") / "merges.txt"
    path.write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
    return path


def scores(space, image, text):
    """Similarity of all pairs, as the released evaluators define it: the Minkowski product, the cosine, or minus the
    mean distance of the factors."""
    image, text = (np.asarray(it, np.float64) for it in (image, text))
    if space.kind == "sphere":
        return image @ text.T
    if space.kind == "lorentz":
        (c,) = space.curvatures
        return oracle.minkowski(oracle.full(image, c)[:, None], oracle.full(text, c)[None])
    pairs = [oracle.product_distance(np.broadcast_to(row, text.shape), text, space.curvatures, "l1") for row in image]
    return -np.stack(pairs)


def evaluation(space, encode_image, encode_text, pixels, tokens):
    """Retrieval in both directions, and classification among three classes with two prompts each."""
    image = torch.cat([encode_image(part) for part in pixels.split(2)]).numpy()
    text = encode_text(tokens).numpy()
    table = scores(space, image, text)
    own = np.arange(len(table))
    recall = {
        f"{name}@{k}": float(np.mean([own[i] in np.argsort(-it[i], kind="stable")[:k] for i in own]))
        for name, it in (("image_to_text", table), ("text_to_image", table.T))
        for k in (1, 3)
    }
    # The released code averages the prompts of a class before they are lifted.
    tangents = text if space.kind == "sphere" else space.log0(text)
    means = tangents.reshape(-1, 2, tangents.shape[1]).mean(1)
    if space.kind == "sphere":
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    classes = means if space.kind == "sphere" else space.exp0(means)
    logits = scores(space, image, classes)
    return {"table": table, "logits": logits, **recall, "accuracy": float(np.mean(logits.argmax(1) == own // 2))}


@pytest.mark.parametrize("name", ["clip", "meru", "hycoclip", "phyclip"])
def test_the_numbers_of_the_released_model(name, tokenizer, tmp_path):
    data = load_file(GOLDENS / f"{name}_nano.io.safetensors")
    words = ["convert", str(GOLDENS / f"{name}_nano.pth"), str(tmp_path / name), "--tokenizer", str(tokenizer)]
    words += ["--image-heads", "4", "--text-heads", "4", "--method", name]
    done = subprocess.run([sys.executable, "-m", "conifer", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shim, _, _ = conifer.create_model_and_transforms(tmp_path / name)
    pixels, tokens = (torch.from_numpy(data[key]) for key in ("in.pixels", "in.tokens"))
    tokens = tokens.clone()
    for row in tokens:
        row[int((row == END_OF_TEXT).nonzero()[0]) + 1 :] = conifer.open_clip.PADDING
    for view, points in (("image", shim.encode_image(pixels)), ("text", shim.encode_text(tokens))):
        np.testing.assert_allclose(points.numpy(), data[f"out.{view}.embedding"], rtol=1e-5, atol=1e-5)
    recorded = {view: torch.from_numpy(data[f"out.{view}.embedding"]) for view in ("image", "text")}
    parts = iter(recorded["image"].split(2))
    theirs = evaluation(shim.space, lambda _: next(parts), lambda _: recorded["text"], pixels, tokens)
    ours = evaluation(shim.space, shim.encode_image, shim.encode_text, pixels, tokens)
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
