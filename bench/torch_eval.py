"""PyTorch's side of the cases `eval_*`: the published protocols on given points, computed with the same formula as in
`src/eval.rs`.

Scores are computed in chunks of photos, the fastest of the variants tried (see README.md). Only HierarCaps loops over
photos and levels, as its evaluator does.
"""

import math
import os

import torch

DIM, FACTORS = 512, 64
PHOTOS, CLASSES = 50_000, 1_000
RETRIEVED, CAPTIONS = 5_000, 5
CHAINS, TIERS, LEVELS = 1_000, 4, 50
# Number of photos scored at once.
CHUNK = 1000
# If set, use `torch.acosh` as published; the default is the logarithm, which is many times faster.
ACOSH = "BENCH_ACOSH" in os.environ
MINUS_ONE = torch.tensor(-1.0)


def noise(number, rows, columns=DIM):
    """Deterministic noise in [-1, 1): lowbias32 (C. Wellons) of the position in list `number`."""
    x = (torch.arange(rows)[:, None] * DIM + torch.arange(columns)) + (number << 26)
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return (x ^ (x >> 16)).to(torch.float64) / 2**31 - 1


def curvatures(kind):
    return torch.linspace(0.5, 1.5, FACTORS, dtype=torch.float64) if kind.startswith("product") else torch.ones(1, dtype=torch.float64)


def points(kind, tangent):
    """Points from tangent vectors, computed in f64 and rounded once to f32."""
    if kind == "sphere":
        tangent = tangent / tangent.norm(dim=-1, keepdim=True)
    elif kind != "euclidean":
        c = curvatures(kind)[:, None]
        factors = tangent.reshape(len(tangent), len(c), -1)
        r = c.sqrt() * factors.norm(dim=-1, keepdim=True)
        tangent = (torch.sinh(r) / r * factors).reshape(len(tangent), DIM)
    return tangent.to(torch.float32)


class Scores:
    """Scores of photos against all candidates. Larger means more similar."""

    def __init__(self, kind, candidates):
        self.kind, self.c = kind, curvatures(kind).to(torch.float32)
        self.candidates = candidates
        if kind == "euclidean":
            self.norm = candidates.square().sum(-1)
        if kind == "lorentz":
            self.time = torch.sqrt(1 / self.c + candidates.square().sum(-1))
        if kind.startswith("product"):
            self.columns = candidates.reshape(len(candidates), FACTORS, -1).permute(1, 2, 0).contiguous()
            self.times = torch.sqrt(1 / self.c[:, None] + self.columns.square().sum(1))

    def rows(self, photos):
        if self.kind == "sphere":
            return photos @ self.candidates.T
        if self.kind == "euclidean":
            # Minus half of the squared distance, which ranks like the negative distance.
            norms = self.norm + photos.square().sum(-1, keepdim=True)
            return torch.addmm(norms, photos, self.candidates.T, beta=-0.5)
        if self.kind == "lorentz":
            # MERU's evaluator ranks by the inner product, which orders like the distance.
            time = torch.sqrt(1 / self.c + photos.square().sum(-1, keepdim=True))
            return torch.addmm(time * self.time, photos, self.candidates.T, beta=-1)
        photos = photos.reshape(len(photos), FACTORS, -1).transpose(0, 1).contiguous()
        times = torch.sqrt(1 / self.c[:, None] + photos.square().sum(-1))
        total = torch.zeros(photos.shape[1], self.columns.shape[-1])
        for k in range(FACTORS):
            c = float(self.c[k])
            cosh = torch.addmm((c * times[k])[:, None] * self.times[k], photos[k], self.columns[k], alpha=-c).clamp_(min=1)
            rapidity = cosh.acosh_() if ACOSH else torch.addcmul(MINUS_ONE, cosh, cosh).sqrt_().add_(cosh).log_()
            if self.kind == "product_l1":
                total.add_(rapidity, alpha=1 / math.sqrt(c))
            else:
                total.addcmul_(rapidity, rapidity, value=1 / c)
        return -total / FACTORS if self.kind == "product_l1" else -torch.sqrt(total / FACTORS)


def classify(kind):
    scale = 0.5 if kind.startswith("product") else 0.08
    classes = scale * noise(0, CLASSES)
    labels = torch.arange(PHOTOS) % CLASSES
    photos = points(kind, 0.2 * classes[labels] + scale * noise(1, PHOTOS))
    classes = points(kind, classes)

    def step():
        scores = Scores(kind, classes)
        predicted = torch.cat([scores.rows(some).argmax(-1) for some in photos.split(CHUNK)])
        right = (predicted == labels).to(torch.float64)
        per_class = torch.zeros(CLASSES, dtype=torch.float64).index_add_(0, labels, right)
        return [(per_class / labels.bincount(minlength=CLASSES)).mean().item()]

    return step


def retrieve(kind):
    scale = 0.5 if kind.startswith("product") else 0.08
    photos = scale * noise(2, RETRIEVED)
    photo_of = torch.arange(RETRIEVED * CAPTIONS) // CAPTIONS
    captions = points(kind, 0.2 * photos[photo_of] + scale * noise(3, RETRIEVED * CAPTIONS))
    photos = points(kind, photos)

    def step():
        scores = Scores(kind, captions)
        table = torch.cat([scores.rows(some) for some in photos.split(CHUNK)])
        hits_text = photo_of[table.topk(10, dim=1).indices] == torch.arange(RETRIEVED)[:, None]
        hits_photo = torch.cat([some.topk(10, dim=1).indices for some in map(torch.t, table.split(1024, dim=1))]) == photo_of[:, None]
        return [hits[:, :k].any(1).to(torch.float64).mean().item() for hits in (hits_text, hits_photo) for k in (1, 5, 10)]

    return step


def hierarcaps():
    """The released protocol: levels from the smallest to the largest radius, and the most similar text within each
    level.
    """
    root, photos = noise(4, 1), noise(5, CHAINS)
    out = 0.2 * (torch.arange(CHAINS * TIERS) % TIERS + 1)[:, None] * (1 + 0.2 * noise(6, CHAINS * TIERS, 1))
    texts = root + out * (photos.repeat_interleave(TIERS, 0) + 3 * noise(7, CHAINS * TIERS))
    root, photos, texts = (points("sphere", it) for it in (root, photos, texts))
    spelling = ["more " * tier + f"text of photo {photo}" for photo in range(CHAINS) for tier in range(TIERS)]

    def step():
        radius = (texts - root).norm(dim=-1)
        levels = torch.linspace(radius.min().item(), radius.max().item(), LEVELS)
        levels[0], levels[-1] = radius.min(), radius.max()
        inside = [(radius <= level).nonzero()[:, 0] for level in levels]
        precision, recall, tau = 0.0, 0.0, 0.0
        for photo in range(CHAINS):
            similarity = texts @ photos[photo]
            chain = []
            for candidates in inside:
                found = spelling[candidates[similarity[candidates].argmax()]]
                if not chain or chain[-1] != found:
                    chain.append(found)
            own = spelling[photo * TIERS :][:TIERS]
            precision += len(set(chain) & set(own)) / len(set(chain))
            recall += sum(text in chain for text in own) / TIERS
            order = radius[photo * TIERS :][:TIERS].argsort().tolist()
            swapped = sum(order[i] > order[j] for i in range(TIERS) for j in range(i + 1, TIERS))
            tau += 1 - 4 * swapped / (TIERS * (TIERS - 1))
        return [precision / CHAINS, recall / CHAINS, tau / CHAINS]

    return step


def case(name):
    what, _, kind = name.removeprefix("eval_").partition("_")
    return {"classify": classify, "retrieve": retrieve}[what](kind) if kind else hierarcaps()
