"""Hierarchical vision-language embeddings: spaces, models, exact search, losses, training and evaluation.

The computations are those of the program ``conifer``, in Rust. Arrays are NumPy arrays (or torch CPU tensors, where a
function says so) of float32 or float64, C-contiguous, with one point per row.

>>> import conifer
>>> model = conifer.load("checkpoint")                                   # doctest: +SKIP
>>> index = conifer.Index(model.encode_image(photos), model.space)       # doctest: +SKIP
>>> index.search(model.encode_text(["a dog"]), k=10, by="narrower")      # doctest: +SKIP

Submodules, imported when needed: ``conifer.torch`` (differentiable functions and losses), ``conifer.viz`` (figures),
``conifer.open_clip`` (the interface of open_clip), ``conifer.ray`` (embedding and search on a Ray cluster),
``conifer.daft`` (embedding with Daft).
"""

from . import export
from ._conifer import __version__, num_threads, set_num_threads
from .embeddings import EmbeddingSet
from .evaluation import Records, evaluate
from .models import Model, load
from .open_clip import create_model_and_transforms
from .search import Index, SearchResult, Stop, TraversalResult
from .spaces import Euclidean, Lorentz, Product, Space, Sphere
from .training import RunResult, train

__all__ = [
    "EmbeddingSet",
    "Euclidean",
    "Index",
    "Lorentz",
    "Model",
    "Product",
    "Records",
    "RunResult",
    "SearchResult",
    "Space",
    "Sphere",
    "Stop",
    "TraversalResult",
    "__version__",
    "create_model_and_transforms",
    "evaluate",
    "export",
    "load",
    "num_threads",
    "set_num_threads",
    "train",
]
