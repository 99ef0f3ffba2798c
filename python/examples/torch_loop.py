#!/usr/bin/env python3
"""Train a hyperbolic head on frozen vectors in a plain torch loop, with PHyCLIP's loss. Takes seconds.

The vectors are random: 400 concepts under 20 parents. Replace them by those of any encoder.
"""

import torch

import conifer
import conifer.torch as ct


def main():
    torch.manual_seed(0)
    parents = torch.randn(20, 64)
    groups = torch.arange(400) % 20
    concepts = parents[groups] + 0.5 * torch.randn(400, 64)
    photos, captions = (concepts + 0.3 * torch.randn(400, 64) for _ in range(2))
    phrases, boxes = (parents[groups] + 0.3 * torch.randn(400, 64) for _ in range(2))

    space = conifer.Product(4, 8)
    heads = torch.nn.ModuleDict({side: torch.nn.Linear(64, space.dim) for side in ("photo", "text")})
    log_curvature = torch.nn.Parameter(torch.zeros(space.factors))
    log_scale = torch.nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.AdamW([*heads.parameters(), log_curvature, log_scale], lr=1e-2)
    for step in range(200):
        rows = torch.randperm(400)[:64]
        curvature = log_curvature.exp().clamp(0.1, 10)

        def lifted(side, vectors):
            return ct.exp0(heads[side](vectors[rows]) / space.dim**0.5, space, curvature)

        loss = ct.phyclip_loss(
            lifted("photo", photos),
            lifted("text", captions),
            lifted("photo", boxes),
            lifted("text", phrases),
            log_scale.exp().clamp(max=100),
            curvature,
            factors=space.factors,
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == 199:
            print(f"step {step}: loss {loss.item():.3f}")

    learned = conifer.Product(4, 8, log_curvature.exp().clamp(0.1, 10).tolist())
    with torch.no_grad():
        photo_points, text_points = (
            ct.exp0(heads[side](vectors) / space.dim**0.5, learned)
            for side, vectors in (("photo", photos), ("text", captions))
        )
    found = conifer.Index(photo_points, learned).search(text_points, k=1)
    hits = (found.rows[:, 0] == torch.arange(400).numpy()).mean()
    print(f"captions whose nearest photo is their own: {hits:.2f} (chance 0.00)")


if __name__ == "__main__":
    main()
