"""Spaces: the sphere, Euclidean space, the hyperboloid and products of hyperboloids.

Points are stored by their space components, ``dim`` numbers per point; the time component of the hyperboloid,
``sqrt(1/c + |x|^2)``, is recomputed. The curvature parameter is ``c > 0``: the sectional curvature is ``-c``. Angles
are in radians. ``parent`` (general, near the root) comes before ``child`` (specific).

Every function takes NumPy arrays or torch CPU tensors of float32 or float64, ``(N, dim)`` or one point ``(dim,)``, and
returns the same type. The arguments are read in place, the interpreter lock is released, and large inputs are spread
over the threads of :func:`conifer.set_num_threads`. None of these functions has gradients: see ``conifer.torch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _conifer


class Space(_conifer.Space):
    """A space of any kind. Its subclasses are the usual way to make one."""

    def norm(self, x: Any) -> Any:
        """Distance of each point to the origin: (N, dim) -> (N,). Sphere: 1, the chord to its centre."""
        return self.depth(x)

    def midpoint(self, x: Any, y: Any) -> Any:
        """The point halfway between x and y on the geodesic, row by row: (N, dim), (N, dim) -> (N, dim)."""
        return self.geodesic(x, y, 0.5)

    def is_inside_cone(
        self, parent: Any, child: Any, min_radius: float = 0.1, aperture_scale: float = 1.0, root: Any = None
    ) -> Any:
        """True where child lies in the cone of parent, row by row: (N, dim), (N, dim) -> bool (N,).

        The cone at parent has half aperture ``aperture_scale * half_aperture(parent, min_radius)``. On a product, child
        must lie in the cone of every factor.
        """
        return self.cone_excess(parent, child, min_radius, aperture_scale, root) <= 0

    @property
    def spec(self) -> tuple[str, int, int, list[float]]:
        """Kind, dim, number of factors and curvatures."""
        return (self.kind, self.dim, self.factors, self.curvatures)

    def __repr__(self) -> str:
        return f"conifer.{self}" if type(self) is Space else f"conifer.{type(self).__name__}: {self}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash((self.kind, self.dim, self.factors, tuple(self.curvatures)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (space_of, self.spec)


class Sphere(Space):
    """The unit sphere in ``dim`` coordinates. Distances are arcs in radians."""

    def __new__(cls, dim: int) -> Sphere:
        return super().__new__(cls, "sphere", dim)


class Euclidean(Space):
    """Euclidean space of ``dim`` coordinates."""

    def __new__(cls, dim: int) -> Euclidean:
        return super().__new__(cls, "euclidean", dim)


class Lorentz(Space):
    """The hyperboloid of curvature ``-curvature`` with ``dim`` space components (MERU, HyCoCLIP)."""

    def __new__(cls, dim: int, curvature: float = 1.0) -> Lorentz:
        return super().__new__(cls, "lorentz", dim, 1, [float(curvature)])


class Product(Space):
    """``factors`` hyperboloids of ``factor_dim`` space components each (PHyCLIP).

    ``curvature`` is one number, or one per factor. The distance is the mean of the distances in the factors
    (``norm="l1"``) or their root mean square (``norm="l2"``).
    """

    def __new__(
        cls, factors: int, factor_dim: int, curvature: float | Sequence[float] = 1.0, norm: str = "l1"
    ) -> Product:
        if norm not in ("l1", "l2"):
            raise ValueError(f"`norm` is {norm!r}; expected 'l1' or 'l2'")
        if factors < 1 or factor_dim < 1:
            raise ValueError(f"`factors` is {factors} and `factor_dim` is {factor_dim}; expected at least 1")
        curvatures = [float(curvature)] * factors if isinstance(curvature, (int, float)) else list(curvature)
        return super().__new__(cls, f"product_{norm}", factors * factor_dim, factors, curvatures)


def space_of(kind: str, dim: int, factors: int, curvatures: Sequence[float]) -> Space:
    """The space with this spec, as :attr:`Space.spec` has it."""
    if kind == "sphere":
        return Sphere(dim)
    if kind == "euclidean":
        return Euclidean(dim)
    if kind == "lorentz" and len(curvatures) == 1:
        return Lorentz(dim, curvatures[0])
    if kind in ("product_l1", "product_l2") and factors > 0 and dim % factors == 0:
        return Product(factors, dim // factors, list(curvatures), kind[-2:])
    return Space(kind, dim, factors, list(curvatures))
