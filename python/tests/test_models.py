import io
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import TOWERS

import conifer

Image = pytest.importorskip("PIL.Image")


def test_every_form_of_a_photo_gives_the_same_point(model, drawings, tmp_path):
    expected = model.encode_image(drawings)
    assert expected.shape == (6, model.space.dim) and expected.dtype == np.float32
    pictures = [Image.fromarray(it) for it in drawings]
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    contents = []
    for picture, path in zip(pictures, paths):
        picture.save(path)
        contents.append(path.read_bytes())
    mixed = [pictures[0], paths[1], str(paths[2]), contents[3], bytearray(contents[4]), drawings[5]]
    for images in (pictures, paths, contents, mixed):
        assert np.array_equal(model.encode_image(images), expected)
    # The rows of a batch influence each other only in the last bits.
    np.testing.assert_allclose(model.encode_image(drawings, batch_size=2), expected, atol=1e-5)
    assert model.encode_image(paths[0]).shape == (model.space.dim,)
    grey = Image.fromarray(drawings[0]).convert("L")
    assert np.array_equal(model.encode_image([grey]), model.encode_image([grey.convert("RGB")]))


def test_points_are_those_of_the_command_line(model, drawings, tmp_path):
    for i, picture in enumerate(drawings):
        (tmp_path / "photos" / str(i % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(tmp_path / "photos" / str(i % 2) / f"{i}.png")
    arguments = ["embed", str(TOWERS), "--data", f"image_folder:{tmp_path / 'photos'}", "--out", str(tmp_path / "set")]
    code = "from conifer._program import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments, "--views", "image"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = conifer.EmbeddingSet.open(tmp_path / "set")
    assert len(rows) == 6 and rows.space == model.space
    order = [int(name.rpartition("/")[2].partition(".")[0]) for name in rows.ids]
    np.testing.assert_allclose(rows.points, model.encode_image([drawings[i] for i in order]), atol=1e-5)


def test_texts(model):
    texts = ["a red circle", "a shape", "a red circle"]
    found = model.encode_text(texts)
    assert found.shape == (3, model.space.dim) and np.array_equal(found[0], found[2])
    np.testing.assert_allclose(model.encode_text("a shape"), found[1], atol=1e-5)
    assert model.encode_text([]).shape == (0, model.space.dim) == model.encode_image([]).shape
    calls = []
    model.encode_text(texts, batch_size=1, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (3, 3) and len(calls) == 2


def test_encode_has_the_interface_of_sentence_transformers(model, drawings):
    mixed = ["a red circle", drawings[0], "a shape", Image.fromarray(drawings[1])]
    found = model.encode(mixed)
    np.testing.assert_allclose(found[[0, 2]], model.encode_text([mixed[0], mixed[2]]))
    np.testing.assert_allclose(found[[1, 3]], model.encode_image(drawings[:2]))
    assert model.encode("a shape").shape == (model.space.dim,)
    assert isinstance(model.encode(["a shape"], convert_to_numpy=False), list)


def test_sets_of_a_model(model, drawings):
    texts = model.embed_texts(["a red circle", "a shape"], label=["circle", "shape"])
    assert texts.ids == ["a red circle", "a shape"] and texts.columns["label"] == ["circle", "shape"]
    assert texts.modality == ["text"] * 2 and texts.space == model.space
    index = conifer.Index(conifer.EmbeddingSet.concat([texts, model.embed_images(drawings)]))
    assert index.search(texts.points[0], k=1).ids[0] == "a red circle"


def test_models_can_be_pickled_and_say_what_they_are(model):
    copy = pickle.loads(pickle.dumps(model))
    assert copy.fingerprint == model.fingerprint and copy.space == model.space
    assert str(TOWERS) in repr(model) and model.image_size > 0 and model.context_length > 0
    root = conifer.load(TOWERS, root_text="a shape").root
    np.testing.assert_allclose(root, model.encode_text("a shape"), atol=1e-5)


def test_open_clip_interface(model, drawings):
    torch = pytest.importorskip("torch")
    shim, train, preprocess = conifer.create_model_and_transforms(TOWERS)
    pixels = torch.stack([preprocess(Image.fromarray(it)) for it in drawings])
    assert pixels.dtype == torch.uint8 and train is preprocess
    np.testing.assert_allclose(shim.encode_image(pixels).numpy(), model.encode_image(drawings), atol=1e-5)
    tokens = conifer.open_clip.get_tokenizer(shim)(["a red circle", "a shape"])
    texts = shim.eval().encode_text(tokens)
    np.testing.assert_allclose(texts.numpy(), model.encode_text(["a red circle", "a shape"]), atol=1e-5)
    scores = shim.similarity(shim.encode_image(pixels), texts)
    assert scores.shape == (6, 2)
    # The pixels of torchvision's `ToTensor`.
    np.testing.assert_allclose(shim.encode_image(pixels.float() / 255).numpy(), model.encode_image(drawings), atol=1e-5)
    with pytest.raises(ValueError, match="a pixel value.* expected a number from 0 to 1"):
        shim.encode_image(pixels.float())
    with pytest.raises(TypeError, match="expected uint8 or float32"):
        shim.encode_image(pixels.double())
    with pytest.raises(ValueError, match="expected only `model_name`"):
        conifer.create_model_and_transforms("ViT-B-32", pretrained="openai")


def test_evaluate_returns_the_records_of_the_command_line(model):
    found = conifer.evaluate(model, "zero_shot_classification", data="toy", data_option=["size=60"], prompts="bare")
    assert len(found) > 0 and found[0]["benchmark"] == "zero_shot_classification"
    assert {it["produced_by"]["weights_sha256"] for it in found} == {model.fingerprint}
    code = "from conifer._program import main; main()"
    arguments = ["eval", "run", str(TOWERS), "--data", "toy", "--data-option", "size=60", "--prompts", "bare"]
    command = [sys.executable, "-c", code, "--json", *arguments, "--benchmark", "zero_shot_classification"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values = {(it["metric"], it["value"]) for it in json.loads(done.stdout)}
    assert values == {(it["metric"], it["value"]) for it in found}
    assert found._repr_html_().startswith("<table>")
    with pytest.raises(KeyError, match="Metrics: "):
        found.value("absent")


def test_points_are_evaluated_like_their_model(model, drawings, tmp_path):
    captions = ["a red circle", "a shape", "a blue dog", "two boxes", "a tree", "a car"]
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for picture, path in zip(drawings, paths):
        Image.fromarray(picture).save(path)
    lines = "".join(f"{path},{caption}\n" for path, caption in zip(paths, captions))
    (tmp_path / "pairs.csv").write_text("image,caption\n" + lines)
    rows = conifer.EmbeddingSet.concat([model.embed_images(paths), model.embed_texts(captions)])
    arguments = {"benchmarks": "cross_modal_retrieval", "data": f"csv_pairs:{tmp_path / 'pairs.csv'}"}
    expected, found = conifer.evaluate(model, **arguments), conifer.evaluate(rows, **arguments)
    values = [[(it["split"], it["metric"], it["value"]) for it in records] for records in (expected, found)]
    assert values[0] == values[1] and len(values[0]) > 2
    rows.save(tmp_path / "set")
    assert len(conifer.evaluate(tmp_path / "set", **arguments)) == len(expected)
    with pytest.raises(ValueError, match="has no point for 1 of the items, first: the text `a car`; expected a text row"):
        conifer.evaluate(rows[:11], **arguments)


def test_figures(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import conifer.viz

    space = conifer.Lorentz(6, 0.5)
    rows = conifer.EmbeddingSet(space.exp0(rng.normal(size=(30, 6))), space, modality=["image", "text"] * 15)
    disc = conifer.viz.project(rows)
    np.testing.assert_allclose(disc.depth, rows.depth(), rtol=1e-5)
    np.testing.assert_allclose(np.hypot(disc.x, disc.y), np.tanh(np.sqrt(0.5) * disc.depth / 2), atol=1e-12)
    plots = conifer.viz.plot_disc
    for figure in (plots(rows, labels=2), plots(rows, "depth"), conifer.viz.depth_histogram(rows)):
        content = io.BytesIO()
        figure.savefig(content)
        assert len(content.getvalue()) > 5000
    with pytest.raises(ValueError, match="no column is called `label`"):
        conifer.viz.plot_disc(rows, "label")
