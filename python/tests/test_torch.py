"""Losses and functions with gradients: against the released code (fixtures/losses), finite differences and float64."""

import json

import numpy as np
import oracle
import pytest
from conftest import REPOSITORY

torch = pytest.importorskip("torch")

import conifer  # noqa: E402
import conifer.torch as ct  # noqa: E402

LOSSES = REPOSITORY / "fixtures/losses"
VIEWS = ["image", "text", "box_image", "box_text"]


def golden(name):
    """Tensors of a safetensors file."""
    content = (LOSSES / f"{name}.safetensors").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return {
        key: torch.tensor(np.frombuffer(content[start:], "<f4", np.prod(it["shape"], dtype=int), it["data_offsets"][0]))
        .reshape(it["shape"])
        for key, it in header.items()
        if it["dtype"] == "F32"
    }


def relative(found, expected):
    return float(torch.linalg.norm(found.double() - expected.double()) / torch.linalg.norm(expected.double()))


@pytest.mark.parametrize(
    ("file", "method", "space", "settings"),
    [
        ("clip_b24_d32", "clip", conifer.Sphere(32), {}),
        ("meru_b24_d32", "meru", conifer.Lorentz(32), {}),
        # The fixture was computed with weight 0.1.
        ("hycoclip_b24_d32", "hycoclip", conifer.Lorentz(32), {"entailment_weight": 0.1}),
        ("phyclip_l1_b24_k8_d8", "phyclip", conifer.Product(8, 8), {}),
        ("phyclip_l2_b24_k8_d8", "phyclip", conifer.Product(8, 8, norm="l2"), {}),
    ],
)
def test_losses_and_gradients_of_the_released_code(file, method, space, settings):
    data = golden(file)
    factors = space.factors if space.curvatures else 0
    products = factors > 1

    def logarithms(single, many):
        names = [f"param.{many}.{i}" for i in range(factors)] if products else [f"param.{single}"]
        return torch.cat([data[name] for name in names]).requires_grad_()

    scale = data["param.logit_scale"].clone().requires_grad_()
    curvature = logarithms("curv", "curvs") if factors else None
    alphas = {}
    if factors:
        alphas = {side: logarithms(f"{side}_alpha", f"{side}_concept_alphas") for side in ("visual", "textual")}
    features = {view: data[f"in.{view}"].clone().requires_grad_() for view in VIEWS if f"in.{view}" in data}
    points = {}
    for view, rows in features.items():
        alpha = alphas.get("visual" if "image" in view else "textual")
        if alpha is not None:
            rows = rows * alpha.exp().repeat_interleave(space.dim // space.factors if products else space.dim)
        points[view] = ct.exp0(rows, space, None if curvature is None else curvature.exp())
    arguments = (method, space, points, scale.exp(), None if curvature is None else curvature.exp())
    total, terms = ct.loss_with_terms(*arguments, reference=True, **settings)
    assert total.item() == pytest.approx(float(data["out.loss"]), rel=1e-5)
    assert terms["contrastive"] == pytest.approx(float(data["out.contrastive_loss"]), rel=1e-5)
    total.backward()
    for view in features:
        assert relative(features[view].grad, data[f"grad.{view}"]) < 1e-4, view
    assert relative(scale.grad, data["gradparam.logit_scale"]) < 1e-4
    for name, found in {"curv": curvature, **{f"{side}_alpha": it for side, it in alphas.items()}}.items():
        if found is not None:
            many = {"curv": "curvs"}.get(name, name.replace("_alpha", "_concept_alphas"))
            names = [f"gradparam.{many}.{i}" for i in range(factors)] if products else [f"gradparam.{name}"]
            assert relative(found.grad, torch.cat([data[it] for it in names])) < 1e-4, name


def test_radial_loss_of_the_released_code():
    data = golden("radial_b16_d48")
    space = conifer.Sphere(48)

    def chains(name):
        leaf = data[name].clone().requires_grad_()
        return leaf, [[ct.exp0(leaf[side, tier], space) for tier in range(4)] for side in range(2)]

    text, (right, wrong) = chains("in.text")
    _, (frozen, frozen_wrong) = chains("in.frozen_text")
    root = data["in.root"].clone().requires_grad_()
    lifted = ct.exp0(root[None], space)[0]
    total = ct.radial_loss(
        right, lifted, wrong, frozen_chain=frozen, frozen_wrong_chain=frozen_wrong, reference=True
    )
    assert total.item() == pytest.approx(float(data["out.total_loss"]), rel=1e-5)
    total.backward()
    assert relative(text.grad, data["grad.text"]) < 1e-4 and relative(root.grad, data["grad.root"]) < 1e-4


def doubles(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).mul(0.7).requires_grad_() for shape in shapes]


PRODUCT = conifer.Product(2, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, c: ct.exp0(x, PRODUCT, c),
        lambda x, y, c: ct.log0(x, PRODUCT, c),
        lambda x, y, c: ct.distance(x, y, PRODUCT, c),
        lambda x, y, c: ct.pairwise_distance(x, y, PRODUCT, c),
        lambda x, y, c: ct.exterior_angle(x, y, PRODUCT, c),
        lambda x, y, c: ct.pairwise_exterior_angle(x, y, PRODUCT, c),
        lambda x, y, c: ct.half_aperture(x, PRODUCT, c, min_radius=0.05),
        lambda x, y, c: ct.cone_hinge(x, y, PRODUCT, c, min_radius=0.05),
    ],
)
def test_functions_pass_gradcheck(function):
    x, y = doubles(1, (4, 6), (4, 6))
    curvature = torch.tensor([0.6, 1.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x, y, curvature), raise_exception=True)


def test_losses_pass_gradcheck():
    points = doubles(2, (5, 6), (5, 6), (5, 6), (5, 6))
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    curvature = torch.tensor([0.6, 1.4], dtype=torch.float64, requires_grad=True)
    one = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    assert check(lambda *it: ct.phyclip_loss(*it, factors=2), (*points, scale, curvature))
    assert check(lambda *it: ct.hycoclip_loss(*it), (*points, scale, one))
    assert check(lambda *it: ct.meru_loss(*it), (*points[:2], scale, one))
    unit = torch.nn.functional.normalize
    assert check(lambda a, b, s: ct.clip_loss(unit(a), unit(b), s), (*points[:2], scale))


def test_single_precision_agrees_with_double():
    points = doubles(3, *[(64, 32)] * 4)
    found = {}
    for dtype in (torch.float32, torch.float64):
        leaves = [it.detach().to(dtype).requires_grad_() for it in points]
        total = ct.phyclip_loss(*leaves, 5.0, 1.2, factors=4)
        total.backward()
        assert total.dtype == dtype and total.shape == ()
        found[dtype] = (total.item(), [it.grad for it in leaves])
    (single, single_grads), (double, double_grads) = found[torch.float32], found[torch.float64]
    assert single == pytest.approx(double, rel=2e-6)
    for a, b in zip(single_grads, double_grads):
        assert relative(a, b) < 2e-5


def test_clip_loss_agrees_with_the_oracle():
    x, y = (torch.nn.functional.normalize(it) for it in doubles(4, (10, 7), (10, 7)))
    expected = oracle.clip_loss(x.detach().numpy(), y.detach().numpy(), 4.0)
    assert float(ct.clip_loss(x, y, 4.0)) == pytest.approx(expected, rel=1e-12)


def test_angle_loss_learns_the_order_of_wholes_and_parts():
    (points,) = doubles(5, (8, 5))
    things, parts = list(range(8)), [(i, 4 + i) for i in range(4)]
    before = ct.angle_loss(points, things, parts, 5.0)
    before.backward()
    with torch.no_grad():
        points -= 0.05 * points.grad
    assert float(ct.angle_loss(points, things, parts, 5.0)) < float(before)


def test_gradients_only_where_they_are_needed():
    x, y = doubles(6, (4, 6), (4, 6))
    fixed = y.detach()
    ct.meru_loss(x, fixed, 3.0).backward()
    assert x.grad is not None and fixed.grad is None
    with torch.no_grad():
        assert not ct.meru_loss(x, y, 3.0).requires_grad
    scaled = torch.autograd.grad(2.5 * ct.meru_loss(x, fixed, 3.0), x)[0]
    assert torch.allclose(scaled, 2.5 * x.grad)
    # A view of another tensor and a transposed one are accepted.
    turned = torch.randn(6, 4, dtype=torch.float64).T.requires_grad_()
    ct.meru_loss(turned, fixed, 3.0).backward()
    for value in (ct.distance(x, y, conifer.Lorentz(6)).sum(), ct.meru_loss(x, y, 3.0)):
        with pytest.raises(RuntimeError, match="no second derivatives"):
            torch.autograd.grad(value, x, create_graph=True)


def test_training_a_head_in_a_torch_loop():
    torch.manual_seed(0)
    space = conifer.Lorentz(8)
    pictures = torch.randn(32, 12)
    texts = pictures @ torch.randn(12, 12) / 4
    towers = torch.nn.ModuleList([torch.nn.Linear(12, 8), torch.nn.Linear(12, 8)])
    scale = torch.nn.Parameter(torch.tensor(1.0))
    curvature = torch.nn.Parameter(torch.tensor(0.0))
    optimizer = torch.optim.Adam([*towers.parameters(), scale, curvature], lr=0.03)
    losses = []
    for _ in range(30):
        points = [ct.exp0(tower(it) / 8**0.5, space, curvature.exp()) for tower, it in zip(towers, (pictures, texts))]
        total = ct.meru_loss(*points, scale.exp(), curvature.exp())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    assert losses[-1] < 0.7 * losses[0], (losses[0], losses[-1])


def test_geometry_takes_tensors(rng):
    space = conifer.Lorentz(6)
    x, y = torch.randn(5, 6), torch.randn(7, 6)
    found = space.pairwise_distance(x, y)
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
    assert np.array_equal(found.numpy(), space.pairwise_distance(x.numpy(), y.numpy()))
    assert isinstance(space.exp0(x[0]), torch.Tensor) and isinstance(space.distance(x[0], y[0]), torch.Tensor)
    assert space.is_inside_cone(x, y[:5]).dtype == torch.bool


def test_messages():
    x = torch.randn(4, 6)
    space = conifer.Lorentz(6)
    for make, error, text in [
        (lambda: space.norm(x.clone().requires_grad_()), ValueError, "requires a gradient"),
        (lambda: space.norm(x.half()), TypeError, "has dtype float16; expected float32 or float64"),
        (lambda: space.norm(x.bfloat16()), TypeError, "has dtype bfloat16"),
        (lambda: space.norm(x.to("meta")), ValueError, "on device meta; expected a CPU tensor"),
        (lambda: ct.meru_loss(x, x[:3], 1.0), ValueError, "`text` has shape"),
        (lambda: ct.meru_loss(x, x.double(), 1.0), TypeError, "expected equal dtypes"),
        (lambda: ct.meru_loss(x, x.half(), 1.0), TypeError, "text has dtype torch.float16"),
        (lambda: ct.meru_loss(x, x.to("meta"), 1.0), ValueError, "text is on device meta"),
        (lambda: ct.meru_loss(x, x, 1.0, weight=3), ValueError, "weight"),
        (lambda: ct.meru_loss(x, x, 1.0, -1.0), ValueError, r"`curv\[0\]` is -1"),
        (lambda: ct.meru_loss(x, x, 1.0, [1.0, 2.0]), ValueError, r"curvature has shape \(2,\); expected \(1,\)"),
        (lambda: ct.phyclip_loss(x, x, x, x, 1.0, factors=4), ValueError, "`factors` is 4; expected a divisor of"),
        (lambda: ct.loss("clap", space, {"image": x}, 1.0), ValueError, "clap"),
        (lambda: ct.loss("meru", space, {"photo": x}, 1.0), ValueError, "input `photo`; expected one of image, text"),
        (lambda: ct.loss("meru", space, {"image": x}, 1.0), ValueError, "text of the batch"),
        (lambda: ct.distance(x, x[:2], space), ValueError, r"input 1 has shape \(2, 6\); expected \(4, 6\)"),
        (lambda: ct.exp0(x[0], space), ValueError, r"input 0 has shape \(6,\); expected \(N, 6\)"),
        (lambda: ct.meru_loss(x, x, []), ValueError, r"logit_scale is \(0,\); expected 1 / temperature of shape"),
        (lambda: ct.meru_loss(x, x, [1.0, 2.0, 3.0]), ValueError, r"logit_scale is \(3,\)"),
        (lambda: ct.radial_loss([x, x], x[0], frozen_chain=[x]), ValueError, "frozen_chain has 1 links; expected"),
        (lambda: ct.radial_loss([x, x[:2]], x[0]), ValueError, "chain has 2 rows; expected 4"),
    ]:
        with pytest.raises(error, match=text):
            make()
