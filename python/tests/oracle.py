"""The geometry again, in NumPy and float64, from the definitions: the distance from the Minkowski product of full
hyperboloid points, angles from tangent vectors. It shares no code and no rearranged formula with the crates."""

from __future__ import annotations

import numpy as np


def full(x, c):
    """Points of the hyperboloid with their time component first, (N, 1 + dim)."""
    x = np.asarray(x, np.float64)
    return np.concatenate([np.sqrt(1 / c + np.sum(x * x, -1, keepdims=True)), x], -1)


def minkowski(x, y):
    return np.sum(x[..., 1:] * y[..., 1:], -1) - x[..., 0] * y[..., 0]


def distance(x, y, c):
    return np.arccosh(np.maximum(-c * minkowski(full(x, c), full(y, c)), 1)) / np.sqrt(c)


def towards(x, y, c):
    """The tangent vector at x towards y: the part of y that is orthogonal to x."""
    return y + c * minkowski(x, y)[..., None] * x


def exterior_angle(parent, child, root, c):
    """pi minus the angle at the parent between the directions to the root and to the child."""
    parent, child, root = (full(it, c) for it in (parent, child, root))
    a, b = towards(parent, root, c), towards(parent, child, c)
    cosine = minkowski(a, b) / np.sqrt(minkowski(a, a) * minkowski(b, b))
    return np.pi - np.arccos(np.clip(cosine, -1, 1))


def exp0(v, c):
    r = np.linalg.norm(v, axis=-1, keepdims=True)
    return np.sinh(np.sqrt(c) * r) * v / (np.sqrt(c) * r)


def half_aperture(parent, min_radius, c):
    return np.arcsin(np.minimum(1, 2 * min_radius / (np.sqrt(c) * np.linalg.norm(parent, axis=-1))))


def midpoint(x, y, c):
    """The normalised sum in the ambient space."""
    total = full(x, c) + full(y, c)
    return (total / np.sqrt(-c * minkowski(total, total))[..., None])[..., 1:]


def product_distance(x, y, curvatures, norm):
    parts = zip(np.split(x, len(curvatures), -1), np.split(y, len(curvatures), -1), curvatures)
    found = np.stack([distance(a, b, c) for a, b, c in parts])
    return found.mean(0) if norm == "l1" else np.sqrt((found**2).mean(0))


def clip_loss(image, text, scale):
    """Mean of both directions of the softmax cross-entropy."""
    return softmax_loss(scale * image @ text.T)


def softmax_loss(logits):
    def one_way(table):
        largest = table.max(1)
        return np.mean(np.log(np.exp(table - largest[:, None]).sum(1)) + largest - np.diag(table))

    return (one_way(logits) + one_way(logits.T)) / 2
