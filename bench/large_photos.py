#!/usr/bin/env python3
"""Makes large photos for the cases `loader_large*` from the first twenty JPEG files of a folder.

They are enlarged to 2,000 pixels on the longer side and saved with quality 90. Luma noise with a standard deviation of
3 is added, as a camera does, because an enlarged photo alone has almost no high-frequency coefficients.

    large_photos.py FROM TO
"""

import pathlib
import sys

import numpy
from PIL import Image

source, target = map(pathlib.Path, sys.argv[1:])
target.mkdir(parents=True, exist_ok=True)
grain = numpy.random.default_rng(0)
for path in sorted(source.glob("*.jpg"))[:20]:
    with Image.open(path) as photo:
        scale = 2000 / max(photo.size)
        large = photo.convert("RGB").resize([round(side * scale) for side in photo.size], Image.BICUBIC)
    pixels = numpy.asarray(large) + grain.normal(0, 3, (large.height, large.width, 1))
    Image.fromarray(pixels.round().clip(0, 255).astype("uint8")).save(target / path.name, quality=90)
