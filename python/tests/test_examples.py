"""The examples run on the toy world and draw their pictures."""

import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
pytestmark = pytest.mark.slow

# In order: two examples use the model of the first one.
EXAMPLES = {
    "quickstart": (["quickstart.png"], []),
    "own_vectors": (["own_vectors.png"], []),
    "search_and_explore": (["search.png", "disc.png"], []),
    "torch_loop": (["torch_loop.png"], ["torch"]),
    "ray_cluster": (["ray.png"], ["ray.data", "pyarrow"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # CONIFER_EXAMPLES keeps the pictures.
    return os.environ.get("CONIFER_EXAMPLES") or str(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, folder):
    import matplotlib.image

    pictures, packages = EXAMPLES[name]
    for package in packages:
        pytest.importorskip(package)
    environment = {**os.environ, "CONIFER_EXAMPLES": folder, "MPLBACKEND": "Agg", "RAY_enable_worker_prestart": "0"}
    done = subprocess.run(
        [sys.executable, REPOSITORY / f"python/examples/{name}.py"],
        capture_output=True, text=True, timeout=600, env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    for picture in pictures:
        pixels = matplotlib.image.imread(os.path.join(folder, picture))
        assert min(pixels.shape[:2]) > 200 and pixels[..., :3].std() > 0.02, picture


def test_every_example_is_tested():
    assert sorted(EXAMPLES) == sorted(path.stem for path in (REPOSITORY / "python/examples").glob("*.py"))
