"""Every wrong argument gives a Python exception that says the name, the value found and the value expected."""

import numpy as np
import pytest

import conifer

SPACE = conifer.Lorentz(4)
X = np.ones((3, 4))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (X.astype(np.float16), TypeError, "y has dtype float16; expected float32 or float64"),
        (X.astype(int), TypeError, "y has dtype int64; expected float32 or float64"),
        (X.astype(">f8"), TypeError, "y has dtype >f8; expected float32 or float64"),
        (X.astype(np.float32), TypeError, "y is float32 and x is float64; expected equal dtypes"),
        ([[1.0] * 4], TypeError, "y is a list; expected a NumPy array or a torch tensor of float32 or float64"),
        (None, TypeError, "y is a NoneType; expected"),
        (np.ones((4, 3)).T, ValueError, "y is not contiguous"),
        (np.ones((3, 8))[:, ::2], ValueError, "y is not contiguous"),
        (np.ones((3, 5)), ValueError, r"y has shape \(3, 5\); expected \(4,\) or \(N, 4\)"),
        (np.ones((2, 4)), ValueError, r"y has 2 rows; expected 3 as x, or one point of shape \(4,\)"),
        (np.array(1.0), ValueError, r"y has shape \(\); expected \(4,\) or \(N, 4\)"),
        (np.ones((1, 3, 4)), ValueError, r"y has shape \(1, 3, 4\)"),
        (np.array([[1.0, 2, 3, np.nan]] * 3), ValueError, "y: component 3 of row 0 is NaN; expected a finite number"),
        (np.array([[1.0, 2, 3, np.inf]] * 3), ValueError, "y: component 3 of row 0 is inf; expected a finite number"),
        (np.full((3, 4), 1e10), ValueError, r"y: `sqrt\(c\) \|x\|` of row 0 is 2e10; expected at most 1e9"),
    ],
)
def test_arrays(value, error, text):
    with pytest.raises(error, match=text):
        SPACE.distance(X, value)
    if value is not None and "rows" not in text:
        with pytest.raises(error, match=text):
            SPACE.pairwise_distance(X, value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: conifer.Lorentz(0), "manifold `lorentz`: `dim` is 0; expected 1 to 65536"),
        (lambda: conifer.Lorentz(4, -1.0), r"`curv\[0\]` is -1; expected a number from 1e-9 to 1e9"),
        (lambda: conifer.Lorentz(4, float("nan")), r"`curv\[0\]` is NaN"),
        (lambda: conifer.Product(2, 3, [1.0]), "a list of 1; expected a list of 2"),
        (lambda: conifer.Product(0, 3), "`factors` is 0"),
        (lambda: conifer.Product(2, 3, norm="l3"), "`norm` is 'l3'; expected 'l1' or 'l2'"),
        (lambda: conifer.Space("torus", 4), "`kind` is `torus`; expected one of sphere, euclidean, lorentz"),
        (lambda: SPACE.half_aperture(X, -1), "`min_radius` is -1; expected a positive number"),
        (lambda: SPACE.geodesic(X, X, float("nan")), "`t` is NaN; expected a finite number"),
        (lambda: SPACE.exterior_angle(X, X, root=X), r"root has shape \(3, 4\); expected \(4,\)"),
        (lambda: SPACE.centroid(X[:0]), r"points has shape \(0, 4\); expected"),
        (lambda: conifer.Sphere(4).distance(X, X), "x: row 0 is 1 away from the sphere"),
        (lambda: conifer.set_num_threads(-1), "`threads` is -1; expected 0"),
    ],
)
def test_settings(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_sets_and_indexes(tmp_path):
    with pytest.raises(ValueError, match="a list of 2; expected 3, one per id"):
        conifer.EmbeddingSet(X, SPACE, columns={"label": ["a", "b"]})
    with pytest.raises(ValueError, match="`modality` is `picture`; expected one of image, text"):
        conifer.EmbeddingSet(X, SPACE, modality="picture")
    with pytest.raises(ValueError, match="expected a name other than `id` and `modality`"):
        conifer.EmbeddingSet(X, SPACE, columns={"id": ["a"] * 3})
    with pytest.raises(FileNotFoundError, match="absent"):
        conifer.EmbeddingSet.open(tmp_path / "absent")
    with pytest.raises(ValueError, match="`space` is missing"):
        conifer.Index(X)
    with pytest.raises(IndexError, match="row 3; expected a row from -3 to 2"):
        conifer.EmbeddingSet(X, SPACE)[3]
    index = conifer.Index(X, SPACE)
    for arguments, text in [
        ({"k": 0}, "`k` is 0"),
        ({"by": "cosine"}, "`by` is `cosine`; expected one of distance, similarity"),
        ({"by": "gated_narrower"}, "a gated ranking takes `angle`, in radians"),
        ({"angle": 1.0}, "`angle` and `within` are accepted only by"),
        ({"where": {"label": "a"}}, "no column is called `label`"),
        ({"where": [True]}, "`where` has 1 values; expected 3, one per row"),
        ({"where": [5]}, "`where` has row 5; expected rows from 0 to 2"),
        ({"modality": "picture"}, "`modality` is `picture`"),
        ({"depth": (float("nan"), 1.0)}, "the depth of a filter is NaN"),
    ]:
        with pytest.raises(ValueError, match=text):
            index.search(X, **arguments)
    with pytest.raises(ValueError, match="component 0 of query 0 is NaN; expected a finite number"):
        index.search(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match="expected `geodesic` or `tangent`"):
        index.traverse(X[0], path="straight")
    with pytest.raises(TypeError, match="`where` has dtype"):
        index.search(X, where=["a", "b", "c"])


def test_models(model, tmp_path):
    picture = tmp_path / "broken.png"
    picture.write_bytes(b"not a picture")
    with pytest.raises(ValueError, match="image 1 cannot be read: .*broken.png"):
        model.encode_image([np.zeros((8, 8, 3), np.uint8), picture])
    with pytest.raises(ValueError, match="image 0 cannot be read"):
        model.encode_image([b"no image"])
    with pytest.raises(FileNotFoundError, match="absent.png"):
        model.encode_image([tmp_path / "absent.png"])
    with pytest.raises(TypeError, match="image 0 is a int; expected a PIL image, a path"):
        model.encode_image([3])
    with pytest.raises(ValueError, match=r"image 0 has shape \(8, 8, 4\)"):
        model.encode_image([np.zeros((8, 8, 4), np.uint8)])
    with pytest.raises(TypeError, match="image 0 is a ndarray"):
        model.encode_image([np.zeros((8, 8, 3))])
    with pytest.raises(TypeError, match="text 1 is a int; expected a str"):
        model.encode_text(["a", 1])
    with pytest.raises(ValueError, match="`batch_size` is 0"):
        model.encode_text(["a"], batch_size=0)
    with pytest.raises(ValueError, match="`crop` is `left`; expected `center` or `squeeze`"):
        model.encode_image([b""], crop="left")
    with pytest.raises(ValueError, match="`normalize_embeddings` is True; expected False"):
        model.encode(["a"], normalize_embeddings=True)
    with pytest.raises((ValueError, FileNotFoundError), match="absent"):
        conifer.load(tmp_path / "absent")


def test_configs(tmp_path):
    with pytest.raises(ValueError, match="expected one of them"):
        conifer.train()
    with pytest.raises(ValueError, match="stepz.*steps"):
        conifer.train({"train": {"stepz": 3}}, out=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"absent\.toml"):
        conifer.train("absent.toml")
    with pytest.raises(ValueError, match="unknown kind of data"):
        conifer.evaluate(tmp_path, "zero_shot_classification", data="absent.xyz")
    with pytest.raises(ValueError, match="--nonsense"):
        conifer.evaluate(tmp_path, "hierarcaps", data="toy", nonsense=1)
