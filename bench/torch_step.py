"""The whole training step and the embedding of captions, as a PyTorch user writes them, with timm, torchvision,
webdataset and AdamW.

The step is that of HyCoCLIP as published: GRIT shards, RandomResizedCrop(224, 0.5-1) of photo and box, texts padded to
77, ViT-S/16 with twelve heads, CLIP's text tower, four contrastive and four entailment cone losses, and AdamW with
decay of the weights only.
"""

import math
import os
import pathlib
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from torch_side import Text, cones, contrast, lift, pairwise_dist

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        import timm

        self.visual = timm.create_model("vit_small_patch16_224", num_heads=12, num_classes=0)
        self.visual.pos_embed.requires_grad_(False)
        self.textual = Text()
        self.visual_proj, self.textual_proj = nn.Linear(384, 512, bias=False), nn.Linear(512, 512, bias=False)
        self.curv = nn.Parameter(torch.tensor(0.0))
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        self.visual_alpha = nn.Parameter(torch.tensor(math.log(512**-0.5)))
        self.textual_alpha = nn.Parameter(torch.tensor(math.log(512**-0.5)))
        # As published: projections from N(0, 1 / width), so that features have a length of about 1.
        for projection in (self.visual_proj, self.textual_proj):
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)
        nn.init.normal_(self.textual.token.weight, std=0.02)

    def forward(self, image, text, box_image, box_text):
        c = self.curv.exp().clamp(0.1, 10.0)
        see = lambda pixels: lift(self.visual_proj(self.visual(pixels)) * self.visual_alpha.exp(), c)
        read = lambda tokens: lift(self.textual_proj(self.textual(tokens)) * self.textual_alpha.exp(), c)
        views = see(image), read(text), see(box_image), read(box_text)
        logit_scale = self.scale.exp().clamp(max=100.0)
        return contrast(lambda x, y: pairwise_dist(x, y, c), *views, logit_scale) + 0.1 * cones(*views, c)


def batches(workers):
    """Endless batches of 16 from the shards of BENCH_SHARDS."""
    import io

    import open_clip
    import webdataset
    from PIL import Image
    from torchvision import transforms

    tokenizer = open_clip.SimpleTokenizer(context_length=77)
    crop = transforms.RandomResizedCrop(224, scale=(0.5, 1.0), interpolation=transforms.InterpolationMode.BICUBIC)
    change = transforms.Compose([crop, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def pixels(data):
        return change(Image.open(io.BytesIO(data)).convert("RGB"))

    def pick(sample):
        box = f"parent{random.randrange(int(sample['numparents.txt'])):03d}"
        texts = tokenizer([sample["child.txt"].decode(), sample[f"{box}.txt"].decode()])
        return pixels(sample["child.jpg"]), texts[0], pixels(sample[f"{box}.jpg"]), texts[1]

    shards = sorted(str(path) for path in pathlib.Path(os.environ["BENCH_SHARDS"]).glob("*.tar"))
    data = webdataset.WebDataset(shards, resampled=True, shardshuffle=False).shuffle(256).map(pick).batched(16, partial=False)
    return webdataset.WebLoader(data, batch_size=None, num_workers=workers)


def step_hycoclip():
    torch.manual_seed(0)
    model = Model()
    decayed = [it for it in model.parameters() if it.requires_grad and it.dim() > 1]
    kept = [it for it in model.parameters() if it.requires_grad and it.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.2}, {"params": kept, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-6, betas=(0.9, 0.98))

    def work(loader):
        image, text, box_image, box_text = next(loader)
        optimiser.zero_grad()
        loss = model(image, text, box_image, box_text)
        loss.backward()
        optimiser.step()
        return loss.item()

    chosen = []

    def step():
        # Choose the loader in the first step, which is not timed.
        if not chosen:
            chosen.extend(fastest(work))
        workers, loader = chosen
        return [work(loader), float(workers)]

    return step


def fastest(work):
    """Returns the number of worker processes (0, 1 or 2) with the fastest step here, and its loader. `BENCH_WORKERS`
    overrides the number.
    """
    if told := os.environ.get("BENCH_WORKERS"):
        return int(told), iter(batches(int(told)))
    best, warm = None, False
    for workers in (0, 1, 2):
        loader = iter(batches(workers))
        # Wait until the workers have filled their buffers, because until then they compete with the step for the CPU.
        next(loader)
        time.sleep(4 * min(workers, 1))
        if not warm:
            work(loader)
            warm = True
        start = time.perf_counter()
        work(loader)
        took = time.perf_counter() - start
        print(f"{workers} workers: {1e3 * took:.0f} ms", file=sys.stderr)
        if best is None or took < best[0]:
            best = took, workers, loader
        else:
            del loader
    return best[1:]


def text_bucketed(longest):
    """Texts with BENCH_LENGTHS tokens in batches of 32, in the given order, padded to 77 as in CLIP's code or to the
    longest of the batch.
    """
    lengths = [int(it) for it in os.environ["BENCH_LENGTHS"].split(",")]
    model, projection = Text().eval(), nn.Linear(512, 512, bias=False)
    rows = []
    for number, length in enumerate(lengths):
        row = torch.zeros(77, dtype=torch.long)
        row[: length - 1] = (torch.arange(length - 1) * 7919 + number) % 49000
        row[length - 1] = 49407
        rows.append(row)
    chunks = [torch.stack(rows[i : i + 32]) for i in range(0, len(rows), 32)]
    if longest:
        chunks = [chunk[:, : max(lengths[32 * i : 32 * i + 32])].contiguous() for i, chunk in enumerate(chunks)]

    def step():
        with torch.no_grad():
            points = torch.cat([F.normalize(projection(model(chunk)), dim=-1) for chunk in chunks])
        assert points.isfinite().all()
        return sum(lengths)

    return step
