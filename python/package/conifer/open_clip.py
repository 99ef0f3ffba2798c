"""The interface of open_clip, for evaluation loops written for it.

>>> model, _, preprocess = create_model_and_transforms("checkpoint")                    # doctest: +SKIP
>>> points = model.encode_image(torch.stack([preprocess(photo) for photo in photos]))   # doctest: +SKIP
>>> tokens = get_tokenizer(model)(["a dog"])                                            # doctest: +SKIP

The model subtracts the mean of the pixels itself: photos are uint8, or float32 from 0 to 1 as torchvision's ``ToTensor``
makes them, without a ``Normalize``. The results are points of ``model.space``, not unit vectors:
compare them with ``model.similarity``, not with a matrix product. There are no gradients.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .models import Model, load, photo_input
from .spaces import Space

if TYPE_CHECKING:
    import torch

# Fills the rows of token ids behind the end of text.
PADDING = -1


class OpenClipModel:
    """A :class:`conifer.Model` with the methods of a model of open_clip, on torch tensors."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def space(self) -> Space:
        """The space of the points."""
        return self.model.space

    def encode_image(self, image: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        """Points (N, dim) of preprocessed photos (N, 3, size, size), uint8, or float32 from 0 to 1.

        ``normalize`` has no effect.
        """
        import torch

        pixels = np.ascontiguousarray(image.cpu().numpy())
        if pixels.dtype not in (np.uint8, np.float32) or pixels.ndim != 4:
            expected = f"uint8 or float32 (N, 3, {self.model.image_size}, {self.model.image_size})"
            raise TypeError(f"image has dtype {pixels.dtype} and shape {pixels.shape}; expected {expected}")
        return torch.from_numpy(self.model._inner.encode_pixels(pixels))

    def encode_text(self, text: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        """Points (N, dim) of token ids (N, length), as the tokenizer returns them. ``normalize`` has no effect."""
        import torch

        rows = [[token for token in row if token != PADDING] for row in text.tolist()]
        return torch.from_numpy(self.model._inner.encode_tokens(rows))

    def similarity(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Scores of all pairs (N, M): minus the distance; on the sphere the cosine."""
        if self.space.kind == "sphere":
            return image @ text.T
        found: torch.Tensor = -self.space.pairwise_distance(image, text)
        return found

    def eval(self) -> OpenClipModel:
        """Returns the model: it has no training mode."""
        return self

    def to(self, device: Any) -> OpenClipModel:
        """Returns the model; only ``cpu`` is possible."""
        if str(device).partition(":")[0] != "cpu":
            raise ValueError(f"device is {device}; expected cpu")
        return self


def create_model_and_transforms(
    model_name: str | os.PathLike[str], pretrained: Any = None, device: Any = "cpu", **unused: Any
) -> tuple[OpenClipModel, Callable[[Any], torch.Tensor], Callable[[Any], torch.Tensor]]:
    """A model, and its preprocessing for training and for evaluation, which are the same.

    model_name: as for :func:`conifer.load`. ``pretrained`` must be None: the reference names the weights.
    """
    if pretrained is not None or unused:
        found = ", ".join(["pretrained", *unused] if pretrained is not None else unused)
        raise ValueError(f"the arguments {found} are given; expected only `model_name`, which names the weights too")
    model = OpenClipModel(load(model_name)).to(device)

    def preprocess(image: Any) -> torch.Tensor:
        import torch

        return torch.from_numpy(model.model._inner.preprocess(photo_input(image), None))

    return model, preprocess, preprocess


def get_tokenizer(model: OpenClipModel) -> Callable[[str | Iterable[str]], torch.Tensor]:
    """The tokenizer of a model: texts to token ids (N, length), int64."""

    def tokenize(texts: str | Iterable[str]) -> torch.Tensor:
        import torch

        rows = model.model._inner.tokenize([texts] if isinstance(texts, str) else list(texts))
        width = max(map(len, rows), default=0)
        padded = [row + [PADDING] * (width - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.int64).reshape(-1, width)

    return tokenize
