"""Differentiable functions of spaces, and the losses of the methods, for torch.

The computations are the fused ones of the program, on CPU tensors of float32 or float64. They keep no graph: a loss
computes its gradients together with its value, and a function computes itself again in the backward pass. Second
derivatives are not available.

``curvature`` is c > 0, one number or tensor, or one per factor of a product; ``logit_scale`` is 1 / temperature. Both
may be tensors that require gradients. ``**settings`` are the settings of the method, as in the ``[method]`` table of a
config: ``entailment_weight=0.2``, ``reference=True``, ``terms={"entailment": False}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from . import _conifer
from .spaces import Lorentz, Product, Space, Sphere

Scalar = float | Sequence[float] | torch.Tensor


def exp0(v: torch.Tensor, space: Space, curvature: Scalar | None = None) -> torch.Tensor:
    """Exponential map at the origin: tangent vectors (N, dim) to points (N, dim). Sphere: v / |v|."""
    return _apply("exp0", space, [v], curvature)


def log0(x: torch.Tensor, space: Space, curvature: Scalar | None = None) -> torch.Tensor:
    """Logarithm at the origin: points (N, dim) to tangent vectors (N, dim)."""
    return _apply("log0", space, [x], curvature)


def distance(x: torch.Tensor, y: torch.Tensor, space: Space, curvature: Scalar | None = None) -> torch.Tensor:
    """Geodesic distance, row by row: (N, dim), (N, dim) -> (N,)."""
    return _apply("distance", space, [x, y], curvature)


def pairwise_distance(x: torch.Tensor, y: torch.Tensor, space: Space, curvature: Scalar | None = None) -> torch.Tensor:
    """Geodesic distances of all pairs: (M, dim), (N, dim) -> (M, N)."""
    return _apply("pairwise_distance", space, [x, y], curvature)


def exterior_angle(
    parent: torch.Tensor, child: torch.Tensor, space: Space, curvature: Scalar | None = None
) -> torch.Tensor:
    """Exterior angle at parent, seen from the origin, in radians: (N, dim), (N, dim) -> (N,)."""
    return _apply("exterior_angle", space, [parent, child], curvature)


def pairwise_exterior_angle(
    parent: torch.Tensor, child: torch.Tensor, space: Space, curvature: Scalar | None = None
) -> torch.Tensor:
    """Exterior angles of all pairs, in radians: (M, dim), (N, dim) -> (M, N)."""
    return _apply("pairwise_exterior_angle", space, [parent, child], curvature)


def half_aperture(
    parent: torch.Tensor, space: Space, curvature: Scalar | None = None, min_radius: float = 0.1
) -> torch.Tensor:
    """Half aperture of the cone at each parent, in radians: (N, dim) -> (N,)."""
    return _apply("half_aperture", space, [parent], curvature, [min_radius])


def cone_hinge(
    parent: torch.Tensor,
    child: torch.Tensor,
    space: Space,
    curvature: Scalar | None = None,
    min_radius: float = 0.1,
    aperture_scale: float = 1.0,
) -> torch.Tensor:
    """How far child lies outside the cone of parent, in radians, 0 inside: (N, dim), (N, dim) -> (N,)."""
    return _apply("cone_hinge", space, [parent, child], curvature, [min_radius, aperture_scale])


def clip_loss(image: torch.Tensor, text: torch.Tensor, logit_scale: Scalar, **settings: Any) -> torch.Tensor:
    """CLIP's loss of unit vectors (B, dim); row i of both belongs together."""
    return loss("clip", Sphere(image.shape[-1]), {"image": image, "text": text}, logit_scale, **settings)


def meru_loss(
    image: torch.Tensor, text: torch.Tensor, logit_scale: Scalar, curvature: Scalar = 1.0, **settings: Any
) -> torch.Tensor:
    """MERU's loss of points (B, dim) of a hyperboloid: contrast by distance, and texts above their photos."""
    views = {"image": image, "text": text}
    return loss("meru", Lorentz(image.shape[-1]), views, logit_scale, curvature, **settings)


def hycoclip_loss(
    image: torch.Tensor,
    text: torch.Tensor,
    box_image: torch.Tensor,
    box_text: torch.Tensor,
    logit_scale: Scalar,
    curvature: Scalar = 1.0,
    **settings: Any,
) -> torch.Tensor:
    """HyCoCLIP's loss of photos, captions, boxes and phrases, points (B, dim) of a hyperboloid."""
    views = {"image": image, "text": text, "box_image": box_image, "box_text": box_text}
    return loss("hycoclip", Lorentz(image.shape[-1]), views, logit_scale, curvature, **settings)


def phyclip_loss(
    image: torch.Tensor,
    text: torch.Tensor,
    box_image: torch.Tensor,
    box_text: torch.Tensor,
    logit_scale: Scalar,
    curvature: Scalar = 1.0,
    *,
    factors: int,
    norm: str = "l1",
    **settings: Any,
) -> torch.Tensor:
    """PHyCLIP's loss of photos, captions, boxes and phrases, points (B, dim) of a product of ``factors`` hyperboloids.

    curvature: one number for all factors, or (factors,).
    """
    width = image.shape[-1]
    if factors < 1 or width % factors != 0:
        raise ValueError(f"`factors` is {factors}; expected a divisor of the width {width}")
    views = {"image": image, "text": text, "box_image": box_image, "box_text": box_text}
    return loss("phyclip", Product(factors, width // factors, norm=norm), views, logit_scale, curvature, **settings)


def radial_loss(
    chain: Sequence[torch.Tensor],
    root: torch.Tensor,
    wrong_chain: Sequence[torch.Tensor] = (),
    *,
    frozen_chain: Sequence[torch.Tensor] = (),
    frozen_wrong_chain: Sequence[torch.Tensor] = (),
    lengths: Sequence[int] = (),
    **settings: Any,
) -> torch.Tensor:
    """The radial loss of chains of texts, from general to specific, unit vectors (B, dim) per link.

    root: the embedding of the empty text, (dim,). wrong_chain: one wrong text per link. The frozen chains are the same
    texts before fine-tuning, for the prior. lengths: number of links of each sample, if they differ.
    """
    views = {
        "chain": chain,
        "wrong_chain": wrong_chain,
        "frozen_chain": frozen_chain,
        "frozen_wrong_chain": frozen_wrong_chain,
    }
    return loss("radial", Sphere(root.shape[-1]), views, 1.0, root=root, lengths=lengths, **settings)


def angle_loss(
    points: torch.Tensor,
    things: Sequence[int],
    parts: Sequence[tuple[int, int]],
    logit_scale: Scalar,
    curvature: Scalar = 1.0,
    **settings: Any,
) -> torch.Tensor:
    """The contrast of exterior angles between wholes and parts of visual hierarchies, points (N, dim) of a hyperboloid.

    things: the object that each point shows, (N,). parts: pairs of a whole and one of its parts.
    """
    space, views = Lorentz(points.shape[-1]), {"edges": points}
    return loss("visual_hierarchies", space, views, logit_scale, curvature, things=things, parts=parts, **settings)


def loss(
    method: str,
    space: Space,
    views: Mapping[str, torch.Tensor | Sequence[torch.Tensor]],
    logit_scale: Scalar,
    curvature: Scalar | None = None,
    *,
    root: torch.Tensor | None = None,
    lengths: Sequence[int] = (),
    things: Sequence[int] = (),
    parts: Sequence[tuple[int, int]] = (),
    **settings: Any,
) -> torch.Tensor:
    """The loss of any method (``conifer methods`` lists them) on points of any space.

    views: tensors (B, dim) by name: image, text, box_image, box_text, edges; lists of them for chain, wrong_chain,
        frozen_chain and frozen_wrong_chain.
    """
    labels: dict[str, Any] = {"root": root, "lengths": lengths, "things": things, "parts": parts}
    return loss_with_terms(method, space, views, logit_scale, curvature, **labels, **settings)[0]


def loss_with_terms(
    method: str,
    space: Space,
    views: Mapping[str, torch.Tensor | Sequence[torch.Tensor]],
    logit_scale: Scalar,
    curvature: Scalar | None = None,
    *,
    root: torch.Tensor | None = None,
    lengths: Sequence[int] = (),
    things: Sequence[int] = (),
    parts: Sequence[tuple[int, int]] = (),
    **settings: Any,
) -> tuple[torch.Tensor, dict[str, float]]:
    """:func:`loss`, and the means of its terms before their weights, without gradients."""
    named = [
        (name, tensor)
        for name, value in views.items()
        for tensor in ([value] if isinstance(value, torch.Tensor) else value)
    ]
    if not named:
        raise ValueError(f"{method}: there are no views; expected tensors of shape (B, {space.dim})")
    dtype = named[0][1].dtype
    named.append(("logit_scale", _scalars(logit_scale, dtype)))
    if space.curvatures:
        named.append(("curvature", _curvature(space, curvature, dtype)))
    if root is not None:
        named.append(("root", root))
    _check([tensor for _, tensor in named], [name for name, _ in named])
    call = (method, json.dumps(settings), space, [name for name, _ in named], list(lengths), list(things), list(parts))
    terms: dict[str, float] = {}
    total = _LossFunction.apply(call, terms, *[tensor for _, tensor in named])
    return total, terms


class _LossFunction(torch.autograd.Function):
    """A loss, whose gradients are computed in the forward pass if they are needed."""

    @staticmethod
    def forward(ctx: Any, call: tuple[Any, ...], terms: dict[str, float], *tensors: torch.Tensor) -> torch.Tensor:
        method, settings, space, names, lengths, things, parts = call
        inputs = list(zip(names, map(_array, tensors)))
        needed = any(ctx.needs_input_grad)
        total, found, gradients = _conifer.loss(method, settings, space, inputs, lengths, things, parts, needed)
        terms.update(found)
        ctx.save_for_backward(*map(torch.from_numpy, gradients))
        return torch.tensor(total, dtype=tensors[0].dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        _reject_second_derivatives()
        needed = ctx.needs_input_grad[2:]
        scaled = (it * gradient if need else None for it, need in zip(ctx.saved_tensors, needed))
        return (None, None, *scaled)


class _SpaceFunction(torch.autograd.Function):
    """A function of a space."""

    @staticmethod
    def forward(ctx: Any, name: str, space: Space, settings: list[float], *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        ctx.call = (name, space, settings)
        return torch.from_numpy(_conifer.tensor_op(name, space, list(map(_array, tensors)), settings))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        _reject_second_derivatives()
        name, space, settings = ctx.call
        inputs = list(map(_array, ctx.saved_tensors))
        found = _conifer.tensor_op_backward(name, space, inputs, settings, _array(gradient))
        needed = ctx.needs_input_grad[3:]
        return (None, None, None, *(torch.from_numpy(it) if need else None for it, need in zip(found, needed)))


def _reject_second_derivatives() -> None:
    # torch's `once_differentiable` notices them only if the incoming gradient requires one itself.
    if torch.is_grad_enabled():
        raise RuntimeError("create_graph is True; expected False: conifer.torch has no second derivatives")


def _apply(
    name: str, space: Space, tensors: list[torch.Tensor], curvature: Scalar | None, settings: Sequence[float] = ()
) -> torch.Tensor:
    inputs = list(tensors)
    if space.curvatures:
        inputs.append(_curvature(space, curvature, tensors[0].dtype))
    _check(inputs, [f"{name}: input {i}" for i in range(len(inputs))])
    found: torch.Tensor = _SpaceFunction.apply(name, space, list(settings), *inputs)
    return found


def _curvature(space: Space, curvature: Scalar | None, dtype: torch.dtype) -> torch.Tensor:
    """Curvatures (K,); None: those of the space."""
    found = _scalars(space.curvatures if curvature is None else curvature, dtype)
    return found.expand(space.factors) if found.shape == (1,) else found


def _scalars(value: Scalar, dtype: torch.dtype) -> torch.Tensor:
    return torch.as_tensor(value, dtype=None if isinstance(value, torch.Tensor) else dtype).reshape(-1)


def _check(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
    for name, tensor in zip(names, tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch tensor")
        if tensor.device.type != "cpu":
            raise ValueError(f"{name} is on device {tensor.device}; expected a CPU tensor")
        if tensor.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} has dtype {tensor.dtype}; expected torch.float32 or torch.float64")


def _array(tensor: torch.Tensor) -> Any:
    return np.ascontiguousarray(tensor.detach().numpy())
