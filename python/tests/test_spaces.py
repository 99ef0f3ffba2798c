import pickle

import numpy as np
import oracle
import pytest

import conifer

DIM, CURVATURE = 16, 0.7
# float64 agrees with the oracle up to its own cancellation (arccosh near 1); float32 up to rounding.
TOLERANCE = {np.float64: 1e-9, np.float32: 2e-4}


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


@pytest.fixture
def points(rng, dtype):
    return [rng.normal(size=(50, DIM)).astype(dtype) for _ in range(3)]


def close(found, expected, dtype):
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_lorentz_agrees_with_the_definitions(points, dtype):
    x, y, z = points
    space = conifer.Lorentz(DIM, CURVATURE)
    close(space.distance(x, y), oracle.distance(x, y, CURVATURE), dtype)
    origin = np.zeros_like(x)
    close(space.exterior_angle(x, y), oracle.exterior_angle(x, y, origin, CURVATURE), dtype)
    root = z[0]
    expected = oracle.exterior_angle(x, y, np.broadcast_to(root, x.shape), CURVATURE)
    close(space.exterior_angle(x, y, root=root), expected, dtype)
    close(space.half_aperture(x, 0.3), oracle.half_aperture(x, 0.3, CURVATURE), dtype)
    close(space.norm(x), oracle.distance(x, origin, CURVATURE), dtype)
    close(space.depth(x, root=root), oracle.distance(x, root[None], CURVATURE), dtype)
    close(space.midpoint(x, y), oracle.midpoint(x, y, CURVATURE), dtype)
    close(space.exp0(x / 4), oracle.exp0(x / 4, CURVATURE), dtype)
    close(space.log0(space.exp0(x / 4)), x / 4, dtype)
    close(space.inner(x, y), oracle.minkowski(oracle.full(x, CURVATURE), oracle.full(y, CURVATURE)), dtype)
    expected = oracle.distance(x[:, None], y[None], CURVATURE)
    close(space.pairwise_distance(x, y), expected, dtype)


def test_geodesics_have_constant_speed(points, dtype):
    x, y, _ = points
    space = conifer.Lorentz(DIM, CURVATURE)
    whole = space.distance(x, y)
    for t in (0.25, 0.5, 0.9):
        at = space.geodesic(x, y, t)
        close(space.distance(x, at), t * whole, dtype)
        close(space.distance(at, y), (1 - t) * whole, dtype)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_product_agrees_with_its_factors(points, dtype, norm):
    x, y, _ = points
    curvatures = [0.3, 1.0, 1.7, 2.5]
    space = conifer.Product(4, DIM // 4, curvatures, norm=norm)
    close(space.distance(x, y), oracle.product_distance(x, y, curvatures, norm), dtype)
    close(space.pairwise_distance(x, y)[3], oracle.product_distance(x[3:4], y, curvatures, norm), dtype)


def test_sphere_and_euclidean(points, dtype):
    x, y, _ = points
    close(conifer.Euclidean(DIM).distance(x, y), np.linalg.norm(x.astype(np.float64) - y, axis=1), dtype)
    sphere = conifer.Sphere(DIM)
    x, y = sphere.exp0(x), sphere.exp0(y)
    close(np.linalg.norm(x, axis=1), np.ones(50), dtype)
    arc = np.arccos(np.sum(x.astype(np.float64) * y, 1))
    close(sphere.distance(x, y), arc, dtype)
    close(np.diagonal(sphere.pairwise_distance(x, y)).copy(), arc, dtype)


def test_cones(rng):
    space = conifer.Lorentz(DIM)
    parent = space.exp0(rng.normal(size=(40, DIM)))
    behind = space.geodesic(np.zeros(DIM), parent, 1.5)
    assert space.is_inside_cone(parent, behind).all()
    assert not space.is_inside_cone(behind, parent).any()
    excess = space.exterior_angle(parent, behind) - 0.5 * space.half_aperture(parent, 0.2)
    np.testing.assert_allclose(space.cone_excess(parent, behind, 0.2, 0.5), excess, atol=1e-12)
    assert space.is_inside_cone(parent[0], behind[0]) is True


def test_centroid_is_the_midpoint_of_two_points(rng):
    space = conifer.Lorentz(DIM)
    x, y = rng.normal(size=(2, DIM))
    np.testing.assert_allclose(space.centroid(np.stack([x, y])), space.midpoint(x, y), atol=1e-12)


def test_one_point_is_compared_with_every_row(rng):
    space = conifer.Lorentz(DIM)
    x, y = rng.normal(size=(5, DIM)), rng.normal(size=DIM)
    found = space.distance(y, x)
    assert found.shape == (5,)
    assert isinstance(space.distance(y, x[2]), float) and space.distance(y, x[2]) == found[2]
    assert space.exp0(y).shape == (DIM,)
    assert space.pairwise_distance(y, x).shape == (1, 5)
    assert space.distance(x[:0], y).shape == (0,) and space.pairwise_distance(x[:0], x).shape == (0, 5)


def test_large_inputs_on_several_threads_equal_rows(rng):
    space = conifer.Product(8, 8)
    x, y = rng.normal(size=(2, 5000, 64)).astype(np.float32)
    threads = conifer.num_threads()
    try:
        found = []
        for count in (1, 3):
            conifer.set_num_threads(count)
            assert conifer.num_threads() == count
            found.append(space.distance(x, y))
        assert np.array_equal(*found) and space.distance(x[4321], y[4321]) == found[0][4321]
    finally:
        conifer.set_num_threads(threads)


def test_arguments_are_not_changed_and_results_are_new(rng):
    space = conifer.Euclidean(4)
    x = rng.normal(size=(3, 4))
    x.flags.writeable = False
    found = space.exp0(x)
    assert found is not x and not np.shares_memory(found, x) and np.array_equal(found, x)


def test_spaces_are_values():
    for space in (conifer.Lorentz(8, 0.5), conifer.Product(2, 3, [1, 2]), conifer.Sphere(3), conifer.Euclidean(4)):
        copy = pickle.loads(pickle.dumps(space))
        assert copy == space and hash(copy) == hash(space) and type(copy) is type(space)
    assert conifer.Lorentz(8) != conifer.Lorentz(8, 2.0)
    assert repr(conifer.Lorentz(8)) == "conifer.Lorentz: lorentz(dim 8, c 1)"
    assert conifer.Product(2, 3).dim == 6 and conifer.Product(2, 3).curvatures == [1.0, 1.0]
    assert "radians" in conifer.Space.exterior_angle.__doc__
