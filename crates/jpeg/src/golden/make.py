#!/usr/bin/env python3
"""Small JPEG files and their pixels (PNG) as Pillow decodes them; made with Pillow 13.0.0, numpy 2.4.6.

    python3 make.py     writes them beside this file
"""

import pathlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parent
# Pillow's subsampling numbers. Pillow has none for 4:4:0.
SAMPLINGS = {"s444": 0, "s422": 1, "s420": 2}


def picture(width, height, seed, noise):
    y, x = np.mgrid[:height, :width]
    waves = [128 + 90 * np.sin(x / (5 + c) + c) * np.cos(y / (7 - c)) for c in range(3)]
    grain = np.random.default_rng(seed).normal(0, noise, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(waves, -1) + grain, 0, 255).astype(np.uint8))


def keep(name, image, **options):
    path = HERE / f"{name}.jpg"
    image.save(path, **options)
    pixels(name)


def pixels(name):
    Image.open(HERE / f"{name}.jpg").convert("RGB").save(HERE / f"{name}.png", optimize=True)


def main():
    for seed, (name, sampling) in enumerate(SAMPLINGS.items()):
        keep(name, picture(67, 45, seed, 6), quality=90, subsampling=sampling)
    keep("grey", picture(43, 51, 4, 6).convert("L"), quality=85)
    keep("restarts", picture(67, 45, 5, 6), quality=80, subsampling=2, restart_marker_blocks=3)
    keep("noise", picture(51, 37, 6, 90), quality=98, subsampling=2)
    keep("even", picture(64, 48, 7, 3), quality=60, subsampling=2, optimize=True)
    # 4:4:0: the 4:2:2 file with the sampling factors of its first component swapped, and with a matching image size. The order of
    # blocks within an MCU is the same.
    data = bytearray((HERE / "s422.jpg").read_bytes())
    frame = data.index(b"\xff\xc0")
    assert data[frame + 11] == 0x21
    # 67 x 45 in MCUs of 16 x 8 is 5 x 6 MCUs. In MCUs of 8 x 16 that is 40 x 96 pixels; the last ones are cropped.
    data[frame + 11] = 0x12
    data[frame + 5 : frame + 9] = (91).to_bytes(2, "big") + (37).to_bytes(2, "big")
    (HERE / "s440.jpg").write_bytes(data)
    pixels("s440")


main()
