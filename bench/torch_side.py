"""PyTorch's side of the comparison: the same work, written the way a PyTorch user writes it.

Protocol, also used by the Rust side: reads lines `CASE ITERATIONS` from stdin and writes a line of JSON {"case", "ms":
[...], "check": [...], "peak_mb", "extra_mb"} to stdout for each. `check` holds numbers on which both sides must agree
if their inputs are computed with the same formula, which proves that they do the same work.
"""

import json
import math
import os
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(int(os.environ.get("THREADS", "2")))


def filled(*shape, scale=1.0, phase=0.0):
    """Deterministic input scale * sin(0.7 i + phase), as on the Rust side."""
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(0.7 * i + phase)).to(torch.float32).reshape(shape)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-5), nn.LayerNorm(width, eps=1e-5)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, causal):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.proj(attended.transpose(1, 2).reshape(b, n, w))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, width, depth, heads, size=224, patch=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.register_buffer("pos", torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, pixels):
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for block in self.blocks:
            x = block(x, False)
        return self.norm(x)[:, 0]


class Text(nn.Module):
    def __init__(self, width=512, depth=12, heads=8, vocabulary=49408, context=77):
        super().__init__()
        self.token, self.pos = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, tokens):
        x = self.token(tokens) + self.pos[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, True)
        return self.norm(x)[torch.arange(len(x)), tokens.argmax(dim=-1)]


def lift(v, c):
    r = torch.sqrt(c) * v.norm(dim=-1, keepdim=True)
    return torch.sinh(r) * v / r.clamp(min=1e-6)


def pairwise_dist(x, y, c):
    tx, ty = torch.sqrt(1 / c + x.square().sum(-1)), torch.sqrt(1 / c + y.square().sum(-1))
    inner = x @ y.mT - tx[..., :, None] * ty[..., None, :]
    return torch.acosh((-c * inner).clamp(min=1 + 1e-6)) / torch.sqrt(c)


def hinge(parent, child, c, scale):
    tp, tc = torch.sqrt(1 / c + parent.square().sum(-1)), torch.sqrt(1 / c + child.square().sum(-1))
    inner = (parent * child).sum(-1) - tp * tc
    norm = parent.norm(dim=-1)
    cosine = (tc + tp * c * inner) / (norm * torch.sqrt(((c * inner) ** 2 - 1).clamp(min=1e-6)) + 1e-6)
    angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
    aperture = torch.asin((0.2 / (torch.sqrt(c) * norm + 1e-6)).clamp(max=1 - 1e-6))
    return (angle - scale * aperture).clamp(min=0).mean()


def cross_entropy(logits):
    return F.cross_entropy(logits, torch.arange(len(logits)))


def head_clip(image, text, box_image, box_text, s, c):
    image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
    logits = s * image @ text.T
    return 0.5 * (cross_entropy(logits) + cross_entropy(logits.T))


def cones(image, text, box_image, box_text, c):
    return hinge(text, image, c, 0.7) + hinge(box_text, box_image, c, 0.7) + hinge(box_image, image, c, 1.2) + hinge(box_text, text, c, 1.2)


def head_meru(image, text, box_image, box_text, s, c):
    image, text = lift(image, c), lift(text, c)
    logits = -s * pairwise_dist(image, text, c)
    return 0.5 * (cross_entropy(logits) + cross_entropy(logits.T)) + 0.2 * hinge(text, image, c, 1.0)


def contrast(dist, image, text, box_image, box_text, s):
    pairs = [(image, text), (text, image), (box_image, text), (box_text, image)]
    return 0.25 * sum(cross_entropy(-s * dist(x, y)) for x, y in pairs)


def head_hycoclip(image, text, box_image, box_text, s, c):
    views = [lift(v, c) for v in (image, text, box_image, box_text)]
    return contrast(lambda x, y: pairwise_dist(x, y, c), *views, s) + 0.1 * cones(*views, c)


def factor_views(c, *views):
    """Returns each view as [64, B, 8], lifted factor by factor, and the function for the l1 distance of two views."""
    views = [lift(v.reshape(len(v), 64, 8).transpose(0, 1), c[:, None, None]) for v in views]

    def pairwise(x, y):
        tx, ty = torch.sqrt(1 / c[:, None] + x.square().sum(-1)), torch.sqrt(1 / c[:, None] + y.square().sum(-1))
        inner = x @ y.mT - tx[:, :, None] * ty[:, None, :]
        return (torch.acosh((-c[:, None, None] * inner).clamp(min=1 + 1e-6)) / torch.sqrt(c)[:, None, None]).mean(0)

    return views, pairwise


def head_phyclip(image, text, box_image, box_text, s, c):
    c = c.expand(64)
    views, pairwise = factor_views(c, image, text, box_image, box_text)
    return contrast(pairwise, *views, s) + 0.1 * cones(*views, c[:, None])


def head_phyclip_pair(image, text, box_image, box_text, s, c):
    (image, text), pairwise = factor_views(c.expand(64), image, text)
    logits = -s * pairwise(image, text)
    return 0.5 * (cross_entropy(logits) + cross_entropy(logits.T))


HEADS = {it.__name__: it for it in (head_clip, head_meru, head_hycoclip, head_phyclip, head_phyclip_pair)}


def pairwise_angle(at, to, c):
    """MERU's exterior angle at each point of `at` towards each point of `to`, [P, C]."""
    ta, tt = torch.sqrt(1 / c + at.square().sum(-1)), torch.sqrt(1 / c + to.square().sum(-1))
    inner = c * (at @ to.T - ta[:, None] * tt[None, :])
    cosine = (tt[None, :] + ta[:, None] * inner) / (at.norm(dim=-1)[:, None] * torch.sqrt((inner**2 - 1).clamp(min=1e-6)) + 1e-6)
    return torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))


def head_angle():
    """Loss of visual hierarchies:

    640 wholes and 1,280 parts, where part j belongs to whole j % 640; both directions, several positives.
    """
    whole, part = (filled(rows, 128, scale=0.05, phase=p).requires_grad_() for rows, p in ((640, 0.1), (1280, 0.2)))
    c, s = torch.tensor(1.0, requires_grad=True), torch.tensor(1 / 0.07, requires_grad=True)
    right = torch.arange(1280)[None, :] % 640 == torch.arange(640)[:, None]

    def several(logits, right):
        return (logits.logsumexp(dim=1) - logits.masked_fill(~right, -torch.inf).logsumexp(dim=1)).mean()

    def step():
        for leaf in (whole, part, s, c):
            leaf.grad = None
        wholes, parts = lift(whole, c), lift(part, c)
        down = several(s * (math.pi - pairwise_angle(wholes, parts, c)), right)
        up = several(s * pairwise_angle(parts, wholes, c), right.T)
        loss = down + up
        loss.backward()
        return loss.detach()

    return step


def build(case):
    torch.manual_seed(0)
    if case == "vit_b16_forward":
        model, pixels = Vit(768, 12, 12).eval(), filled(8, 3, 224, 224)

        def step():
            with torch.no_grad():
                return model(pixels).square().mean()

        return step
    if case == "vit_s16_train":
        model, pixels = Vit(384, 12, 12), filled(8, 3, 224, 224)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.2)

        def step():
            optimiser.zero_grad()
            loss = model(pixels).square().mean()
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step
    if case == "text_forward":
        model = Text().eval()
        tokens = (torch.arange(32 * 77).reshape(32, 77) * 7919) % 49000
        tokens[:, -1] = 49407

        def step():
            with torch.no_grad():
                return model(tokens).square().mean()

        return step
    if case == "text_finetune":
        return text_finetune()
    if case.startswith("t5_"):
        return t5(case.removeprefix("t5_"))
    if case == "loader":
        return loader()
    if case == "head_angle":
        return head_angle()
    if case == "step_hycoclip":
        import torch_step

        return torch_step.step_hycoclip()
    if case.startswith("text_bucketed"):
        import torch_step

        return torch_step.text_bucketed(longest=case.endswith("longest"))
    if case.startswith("loader_large"):
        return loader("BENCH_LARGE_PHOTOS", 20, draft=case == "loader_large_scaled")
    if case.startswith("eval_"):
        import torch_eval

        return torch_eval.case(case)
    head = HEADS[case]
    views = [filled(768, 512, scale=0.05, phase=p).requires_grad_() for p in (0.1, 0.2, 0.3, 0.4)]
    s = torch.tensor(1 / 0.07, requires_grad=True)
    c = torch.tensor(1.0, requires_grad=True)

    def step():
        for leaf in (*views, s, c):
            leaf.grad = None
        loss = head(*views, s, c)
        loss.backward()
        return loss.detach()

    return step


def t5(what):
    """A training step, or 64 sampled texts, of a T5 with the sizes of Flan-T5-small from `transformers`."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=32128, d_model=512, num_layers=8, num_decoder_layers=8, num_heads=6, d_kv=64, d_ff=1024,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, dropout_rate=0.0,
    )
    model = T5ForConditionalGeneration(config)

    def ids(rows, shift):
        found = (torch.arange(rows * 24).reshape(rows, 24) * 7919 + shift) % 32000 + 2
        found[:, -1] = 1
        return found

    if what == "train":
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
        inputs, labels = ids(32, 0), ids(32, 5)

        def step():
            optimiser.zero_grad()
            loss = model(input_ids=inputs, labels=labels).loss
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step
    model.eval()
    inputs = ids(8, 0)

    def draw():
        with torch.no_grad():
            texts = model.generate(inputs, do_sample=True, top_k=0, num_return_sequences=8, min_new_tokens=24, max_new_tokens=24)
        return torch.tensor(float(texts[:, 1:].numel()))

    return draw


def text_finetune():
    """Training step of HierarCaps: mean and mini-max of the exterior angles seen from the empty text, and the prior
    towards the frozen tower.
    """
    model, frozen = Text(), Text().eval()
    tokens = (torch.arange(64 * 20).reshape(64, 20) * 7919) % 49000
    tokens[:, -1] = 49407
    empty = torch.tensor([[0, 49407]])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-7)

    def angle(root, parent, child):
        a, b = parent - root, child - parent
        cosine = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-6)
        return torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))

    def step():
        optimiser.zero_grad()
        with torch.no_grad():
            before = F.normalize(frozen(tokens), dim=-1)
        text, root = F.normalize(model(tokens), dim=-1), F.normalize(model(empty), dim=-1)
        right, wrong = text.reshape(2, 4, 8, -1)
        positive, negative = angle(root, right[:3], right[1:]), angle(root, right[:3], wrong[:3])
        contrast = (positive - negative).flatten()
        minimax = contrast[positive.argmax()] + contrast[negative.argmin()]
        prior = (1 - (text * before).sum(-1).mean()) / 2
        loss = 10 * prior + contrast.mean() + minimax
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def loader(folder="BENCH_PHOTOS", most=100, draft=False):
    from PIL import Image
    from torchvision import transforms

    photos = sorted(pathlib.Path(os.environ[folder]).glob("*.jpg"))[:most]
    crop = transforms.RandomResizedCrop(224, scale=(0.5, 1.0), interpolation=transforms.InterpolationMode.BICUBIC)
    change = transforms.Compose([crop, transforms.RandomHorizontalFlip(), transforms.PILToTensor()])

    def step():
        total = 0
        for photo in photos:
            with Image.open(photo) as picture:
                if draft:
                    # 224 * sqrt(2): a crop of half the area still has the input size of the model.
                    picture.draft("RGB", (317, 317))
                total += int(change(picture.convert("RGB"))[0, 0, 0])
        return total

    return step


def memory(*names):
    """Bytes of these lines of /proc/self/status; None if there is no such file."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return [None] * len(names)
    return [int(status.split(f"{name}:")[1].split()[0]) * 1024 for name in names]


def mark():
    """Resets the peak and returns the current resident memory, in total and file-backed, as memory.rs does."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return memory("VmRSS", "RssFile")


def extra(before):
    """MB by which the peak of the resident memory exceeds `before`, without program code loaded since then."""
    if before is None or None in before:
        return None
    peak, file = memory("VmHWM", "RssFile")
    return max(0, peak - before[0] - max(0, file - before[1])) / 1e6


def main():
    steps = {}
    for line in sys.stdin:
        case, iterations = line.split()
        if case not in steps:
            step = build(case)
            steps[case] = step, mark()
        step, before = steps[case]
        step()
        ms, found = [], 0.0
        for _ in range(int(iterations)):
            start = time.perf_counter()
            found = step()
            ms.append(1e3 * (time.perf_counter() - start))
        check = found if isinstance(found, list) else [float(found)]
        (peak,) = memory("VmHWM")
        told = {"case": case, "ms": ms, "check": check, "peak_mb": peak and peak / 1e6, "extra_mb": extra(before)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
