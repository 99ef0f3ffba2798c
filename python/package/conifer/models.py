"""Models that embed photos and texts into a space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _conifer
from .embeddings import EmbeddingSet
from .spaces import Space, space_of

Progress = Callable[[int, int], object]


def load(reference: str | os.PathLike[str], *, root_text: str | None = None) -> Model:
    """Open a model: a checkpoint folder, a run folder (its newest checkpoint), a published file such as
    ``hycoclip_vit_s.pth``, or a name on the Hugging Face hub.

    root_text: use the embedding of this text as the root, for a model that does not record it.
    """
    return Model(reference, root_text=root_text)


class Model:
    """A model with its tokenizer. Use :func:`load`.

    Models can be pickled: the copy opens the same path again.
    """

    def __init__(self, reference: str | os.PathLike[str], *, root_text: str | None = None) -> None:
        self._root_text = root_text
        self._inner = _conifer.Model(reference, root_text)

    @property
    def path(self) -> str:
        """The file or folder that was read."""
        return self._inner.path

    @cached_property
    def space(self) -> Space:
        """The space of the points, with its learned curvatures."""
        return space_of(*self._inner.space_spec)

    @cached_property
    def root(self) -> npt.NDArray[np.float64] | None:
        """The point (dim,) from which the cones are seen; None: the origin."""
        return self._inner.root

    @property
    def method(self) -> str:
        """The training method."""
        return self._inner.method

    @property
    def image_size(self) -> int:
        """Side of the square photos that the image tower reads, in pixels."""
        return self._inner.image_size

    @property
    def context_length(self) -> int:
        """Largest number of token ids that the text tower reads."""
        return self._inner.context_length

    @property
    def fingerprint(self) -> str:
        """sha256 of the weights, in hex."""
        return self._inner.fingerprint

    def encode_image(
        self,
        images: Any,
        batch_size: int = 32,
        *,
        crop: str | None = None,
        progress: bool | Progress = False,
    ) -> npt.NDArray[np.float32]:
        """Points (N, dim) of photos, float32.

        images: PIL images, paths, bytes of image files, or arrays (height, width, 3) of uint8. A single one gives a
            point (dim,).
        crop: ``center`` or ``squeeze`` (default: that of the checkpoint).
        progress: True for a bar (with the package tqdm), or a function of the numbers of finished and of all photos.
        """
        if is_image(images):
            found: npt.NDArray[np.float32] = self.encode_image([images], batch_size, crop=crop, progress=progress)[0]
            return found
        inputs = [photo_input(it) for it in images]
        return self._inner.encode_image(inputs, batch_size, crop, _reporter(progress, "photos"))

    def encode_text(
        self, texts: str | Iterable[str], batch_size: int = 32, *, progress: bool | Progress = False
    ) -> npt.NDArray[np.float32]:
        """Points (N, dim) of texts, float32; a single text gives a point (dim,). Equal texts are embedded once."""
        if isinstance(texts, str):
            found: npt.NDArray[np.float32] = self.encode_text([texts], batch_size, progress=progress)[0]
            return found
        listed = list(texts)
        for i, text in enumerate(listed):
            if not isinstance(text, str):
                raise TypeError(f"text {i} is a {type(text).__name__}; expected a str")
        return self._inner.encode_text(listed, batch_size, _reporter(progress, "texts"))

    def encode(
        self,
        inputs: Any,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """Points of texts (str) or photos (anything else), with the arguments of sentence-transformers.

        A mixed list is allowed. ``normalize_embeddings`` must be False: points of a hyperbolic space have no length to
        divide by, and points of a sphere have length 1.
        """
        if normalize_embeddings:
            raise ValueError(f"`normalize_embeddings` is True; expected False: these are points of {self.space}")
        single = isinstance(inputs, str) or is_image(inputs)
        listed = [inputs] if single else list(inputs)
        texts = [i for i, it in enumerate(listed) if isinstance(it, str)]
        photos = [i for i, it in enumerate(listed) if not isinstance(it, str)]
        points = np.empty((len(listed), self.space.dim), np.float32)
        if texts:
            points[texts] = self.encode_text([listed[i] for i in texts], batch_size, progress=show_progress_bar)
        if photos:
            points[photos] = self.encode_image([listed[i] for i in photos], batch_size, progress=show_progress_bar)
        found: Any = points[0] if single else points
        if convert_to_tensor:
            import torch

            return torch.from_numpy(found)
        return found if convert_to_numpy or single else list(found)

    def embed_images(self, images: Any, ids: Iterable[Any] | None = None, **columns: Any) -> EmbeddingSet:
        """An :class:`EmbeddingSet` of photos. Paths become the ids unless ``ids`` are given; ``columns`` are lists."""
        listed = list(images)
        if ids is None and listed and all(isinstance(it, (str, os.PathLike)) for it in listed):
            ids = [os.fspath(it) for it in listed]
        points = self.encode_image(listed)
        return EmbeddingSet(points, self.space, ids, "image", columns, self.root, model=self.path)

    def embed_texts(self, texts: Iterable[str], ids: Iterable[Any] | None = None, **columns: Any) -> EmbeddingSet:
        """An :class:`EmbeddingSet` of texts, with the column ``text``. Default ids: the texts."""
        listed = list(texts)
        points = self.encode_text(listed)
        names = listed if ids is None else ids
        return EmbeddingSet(
            points, self.space, names, "text", {"text": listed, **columns}, self.root, model=self.path
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopened, (self.path, self._root_text))

    def __repr__(self) -> str:
        return f"conifer.Model({self.path}, {self.method}, {self.space})"


def _reopened(path: str, root_text: str | None) -> Model:
    return Model(path, root_text=root_text)


def is_image(value: Any) -> bool:
    """True for one photo, False for a sequence of them. A three-dimensional array is one photo."""
    if isinstance(value, (str, bytes, os.PathLike)) or _is_pil(value):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 3


def photo_input(value: Any) -> Any:
    """A photo as the extension reads it: a path, bytes, or pixels (height, width, 3)."""
    if _is_pil(value):
        return np.ascontiguousarray(np.asarray(value.convert("RGB"), np.uint8))
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        return np.ascontiguousarray(value)
    return value


def _is_pil(value: Any) -> bool:
    # Pillow need not be installed; `convert` belongs to its images only.
    return type(value).__module__.partition(".")[0] == "PIL" and hasattr(value, "convert")


def _reporter(progress: bool | Progress, unit: str) -> Progress | None:
    if progress is False:
        return None
    if progress is not True:
        return progress
    from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

    bar = tqdm(unit=unit)

    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return report
